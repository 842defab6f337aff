/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables of __managed__ in PTX, as nvcc builds for a GPU that it does not know.
 */

#define NAME "managed_variable"
#include "../helpers/managed_things.h"

int main(void)
{
	return managed_main();
}
