/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCS_H
#define PROCS_H

/*
 * The table of cuGetProcAddress.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

/* From `version' on, a name is this symbol. */
struct proc_row {
	int version; /* 3020 is CUDA 3.2 */
	void *symbol;
};

struct proc {
	const char *name;
	const struct proc_row *rows; /* plain ones by version, then per-thread ones */
	unsigned n_plain;
	unsigned n_per_thread; /* 0: the plain ones serve both */
};

/* NULL if the driver has no such function. */
const struct proc *proc_find(const char *name);

/*
 * cuGetProcAddress_v2 with our own symbols. CUDA_SUCCESS with `*pfn' NULL and
 * `*status' (may be NULL) telling why, where the name or version is unknown.
 */
CUresult proc_address(const char *name, void **pfn, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status);

#endif
