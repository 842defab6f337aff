/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_VARIABLE_H
#define MANAGED_VARIABLE_H

/*
 * Variables of __managed__: in pinned memory of ours, for which the server loads
 * their library anew, before anything of it was used. Any thread.
 */

#include "library.h"

/* Places all of a library's, unless that was done. CUDA_ERROR_NOT_FOUND: it has none. */
CUresult managed_variables_place(struct library *library);

/* Address and size of one that is placed; NULL for what is not wanted. CUDA_ERROR_NOT_FOUND. */
CUresult managed_variable_find(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/*
 * They could not be placed, because of `result': told in the log, and the library's
 * kernels are refused, which would work on variables that the program does not see.
 */
CUresult managed_variables_refuse(struct library *library, const char *name, CUresult result);

/* Their library is about to be unloaded: waits for the work of its GPU. */
void managed_variables_end(const struct library *library);

#endif
