/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADVICE_H
#define ADVICE_H

/*
 * What a program has advised about the pages of a managed allocation, and where it
 * has prefetched them. It has no lock; its user has one.
 */

#include "client/util/api.h"

/* Before CUDA 12.2 a location was a number: a GPU's, or CU_DEVICE_CPU. */
CUmemLocation advice_location(CUdevice device);

/*
 * Checks a location that is not a GPU, and gives the host as a whole one ID.
 * CUDA_ERROR_INVALID_VALUE: no such location.
 */
CUresult advice_check_host(CUmemLocation *location);

/* Per page. CU_MEM_LOCATION_TYPE_INVALID means that no location is set. */
struct advice {
	CUmemLocation preferred;
	CUmemLocation prefetched;
	uint64_t accessed_by; /* one bit per GPU ordinal */
	bool is_accessed_by_host;
	bool is_read_mostly;
};

/* The operation: a CUmem_advise, or this. */
#define ADVICE_PREFETCH ((CUmem_advise)0)

/* The advice of a whole allocation. */
struct advised;
struct advised *advised_new(uint64_t size);
void advised_free(struct advised *advised);

/*
 * Applies an operation to the pages that [offset, offset + size) touches; the range
 * is within the allocation. 0 or -ENOMEM.
 */
int advised_change(struct advised *advised, uint64_t offset, uint64_t size, CUmem_advise what,
	CUmemLocation location);

/* The advice that all of these pages have in common. */
struct advice advised_common(const struct advised *advised, uint64_t offset, uint64_t size);

#endif
