/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in machine code, which has their addresses as constants.
 *
 * Builds with: -arch=sm_90
 */

#define NAME "managed_cubin"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
