/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADVICE_H
#define ADVICE_H

/*
 * What a program has advised about the pages of a managed allocation, and where
 * it has prefetched them. No locks and no threads of its own; its user has both.
 */

#include "api.h"

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
