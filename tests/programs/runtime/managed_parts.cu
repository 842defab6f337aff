/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables of __managed__ in what has to be linked when the program starts.
 *
 * Builds with: -rdc=true
 */

#define NAME "managed_parts"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
