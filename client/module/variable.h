/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VARIABLE_H
#define VARIABLE_H

/*
 * Variables of __managed__: they are placed in pinned memory, for which the server
 * loads their library again before anything in it was used. Any thread.
 */

#include "library.h"

/* Places all variables of a library, unless they are placed. CUDA_ERROR_NOT_FOUND: it has none. */
CUresult managed_variables_place(struct library *library);

/* Address and size of a placed variable; each may be NULL. CUDA_ERROR_NOT_FOUND. */
CUresult managed_variable_find(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/*
 * The variables could not be placed, because of `result'. Logs this and refuses the
 * library's kernels, because they would use variables that the program does not
 * see.
 */
CUresult managed_variables_refuse(struct library *library, const char *name, CUresult result);

/* Called before their library is unloaded: waits for the work of its GPU. */
void managed_variables_end(const struct library *library);

#endif
