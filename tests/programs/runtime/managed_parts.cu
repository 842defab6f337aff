/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in code that is linked when the program starts.
 *
 * Builds with: -rdc=true
 */

#define NAME "managed_parts"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
