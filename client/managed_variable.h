/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_VARIABLE_H
#define MANAGED_VARIABLE_H

/*
 * Variables of __managed__: in pinned memory of ours, for which the server loads
 * their library anew, before anything of it was used. Any thread.
 */

#include "library.h"

/*
 * Address and size of one; NULL for what is not wanted. CUDA_ERROR_NOT_FOUND: the
 * library has none of that name. After any other failure, told in the log, its
 * kernels are refused: they would work on variables that the program does not see.
 */
CUresult managed_variable(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/* The same where they have been asked for before; CUDA_ERROR_NOT_FOUND where not. */
CUresult managed_variable_known(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/* Their library is about to be unloaded: waits for the work of its GPU. */
void managed_variables_end(const struct library *library);

#endif
