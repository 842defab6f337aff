/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VARIABLE_H
#define VARIABLE_H

/* Variables of libraries. Any thread. */

#include "library.h"

/* Address and size of a variable on the current context's device; each may be NULL. */
CUresult library_global(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/* Called before their library is unloaded: waits for the work of its GPU. */
void variables_end(const struct library *library);

#endif
