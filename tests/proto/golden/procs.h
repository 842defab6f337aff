/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCS_H
#define PROCS_H

/*
 * The table of cuGetProcAddress.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

/*
 * cuGetProcAddress_v2 with the symbols of this library. For an unknown name or version, the
 * result is CUDA_SUCCESS, `*pfn' is NULL, and `*status' has the reason (`status' may be NULL).
 */
CUresult proc_address(const char *name, void **pfn, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status);

#endif
