/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in linked machine code, whose instructions have their addresses.
 *
 * Builds with: -arch=sm_90 -rdc=true
 */

#define NAME "managed_linked"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
