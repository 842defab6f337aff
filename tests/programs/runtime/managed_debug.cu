/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in machine code for a debugger.
 *
 * Builds with: -arch=sm_90 -G
 */

#define NAME "managed_debug"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
