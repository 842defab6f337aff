/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in PTX, as nvcc builds for an unknown GPU.
 */

#define NAME "managed_variable"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
