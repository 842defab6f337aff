/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADVICE_H
#define ADVICE_H

/*
 * What a program has advised about the pages of a managed allocation, and where
 * it has prefetched them. No locks and no threads of its own; its user has both.
 */

#include "client/util/api.h"

/* Before CUDA 12.2 a place was a number: a GPU's, or CU_DEVICE_CPU. */
CUmemLocation advice_place(CUdevice device);

/* A place that is no GPU's; the host as such has one number. CUDA_ERROR_INVALID_VALUE: there is no
 * such place. */
CUresult advice_check_host(CUmemLocation *place);

/* Of each page. A place whose type is CU_MEM_LOCATION_TYPE_INVALID is none. */
struct advice {
	CUmemLocation preferred;
	CUmemLocation prefetched;
	uint64_t accessed_by; /* a bit for each GPU's ordinal */
	bool is_accessed_by_host;
	bool is_read_mostly;
};

/* What changes: one of CUmem_advise, or this. */
#define ADVICE_PREFETCH ((CUmem_advise)0)

/* Of a whole allocation; NULL: no memory. */
struct advised;
struct advised *advised_new(uint64_t size);
void advised_free(struct advised *advised);

/* For the pages that [offset, offset + size) touches, which lies in the allocation. 0 or -ENOMEM.
 */
int advised_change(struct advised *advised, uint64_t offset, uint64_t size, CUmem_advise what,
	CUmemLocation place);

/* What holds for all of these pages. */
struct advice advised_common(const struct advised *advised, uint64_t offset, uint64_t size);

#endif
