/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCS_H
#define PROCS_H

/*
 * The table of cuGetProcAddress.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

/* From this version on, the name stands for this symbol. */
struct proc_row {
	int version; /* 3020 is CUDA 3.2 */
	void *symbol;
};

struct proc {
	const char *name;
	const struct proc_row *rows; /* plain symbols by version, then per-thread symbols */
	unsigned n_plain;
	unsigned n_per_thread; /* 0: the plain symbols serve both */
};

/* NULL if the driver has no such function. */
const struct proc *proc_find(const char *name);

/*
 * cuGetProcAddress_v2 with the symbols of this library. For an unknown name or version, the
 * result is CUDA_SUCCESS, `*pfn' is NULL, and `*status' has the reason (`status' may be NULL).
 */
CUresult proc_address(const char *name, void **pfn, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status);

#endif
