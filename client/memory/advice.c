/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Advice by pages. Called under the lock of its user.
 *
 * Invariant: the spans of an allocation cover it in order and without gaps, and
 * neighbouring spans differ.
 */

#include "advice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/util/compat.h"

/* The driver's granularity of advice. */
#define PAGE 4096ull

struct span {
	uint64_t end; /* it begins at the end of the span before */
	struct advice advice;
};

struct advised {
	unsigned n;
	struct span *spans;
};

static const CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

CUmemLocation advice_location(CUdevice device)
{
	return device == CU_DEVICE_CPU ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU}
				       : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

/* Whether the NUMA node exists; node 0 exists even if the kernel lists no nodes. */
static bool node_exists(int node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
	return node == 0 || access(path, F_OK) == 0;
}

CUresult advice_check_host(CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_HOST:
		location->id = CU_DEVICE_CPU;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return node_exists(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS; /* unchanged, whatever its ID */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

struct advised *advised_new(uint64_t size)
{
	struct advised *advised = calloc(1, sizeof(*advised));

	if (!advised)
		return NULL;
	advised->spans = calloc(1, sizeof(*advised->spans));
	if (!advised->spans) {
		free(advised);
		return NULL;
	}
	advised->n = 1;
	advised->spans[0] = (struct span){
		.end = ALIGN_UP(size, PAGE),
		.advice = {.preferred = nowhere, .prefetched = nowhere},
	};
	return advised;
}

void advised_free(struct advised *advised)
{
	if (!advised)
		return;
	free(advised->spans);
	free(advised);
}

/* The index of the span that contains `offset'. */
static unsigned span_at(const struct advised *advised, uint64_t offset)
{
	unsigned low = 0, high = advised->n - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (advised->spans[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Splits a span at `offset'; there is space for one more. */
static unsigned advised_split(struct advised *advised, uint64_t offset)
{
	unsigned at;

	if (offset >= advised->spans[advised->n - 1].end)
		return advised->n;
	at = span_at(advised, offset);
	if (offset == (at == 0 ? 0 : advised->spans[at - 1].end))
		return at;
	memmove(&advised->spans[at + 1], &advised->spans[at],
		(advised->n - at) * sizeof(*advised->spans));
	advised->n++;
	advised->spans[at].end = offset;
	return at + 1;
}

static bool is_same_location(CUmemLocation a, CUmemLocation b)
{
	return a.type == b.type && a.id == b.id;
}

static bool is_same(const struct advice *a, const struct advice *b)
{
	return is_same_location(a->preferred, b->preferred) &&
	       is_same_location(a->prefetched, b->prefetched) && a->accessed_by == b->accessed_by &&
	       a->is_accessed_by_host == b->is_accessed_by_host &&
	       a->is_read_mostly == b->is_read_mostly;
}

static void join_same(struct advised *advised)
{
	unsigned kept = 0;

	for (unsigned i = 1; i < advised->n; i++) {
		if (is_same(&advised->spans[kept].advice, &advised->spans[i].advice))
			advised->spans[kept].end = advised->spans[i].end;
		else
			advised->spans[++kept] = advised->spans[i];
	}
	advised->n = kept + 1;
}

static void set_accessed(struct advice *advice, CUmemLocation location, bool is_accessed)
{
	uint64_t bit = 1ull << ((unsigned)location.id % 64);

	if (location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		advice->is_accessed_by_host = is_accessed;
	else
		advice->accessed_by = (advice->accessed_by & ~bit) | (is_accessed ? bit : 0);
}

static void advice_change(struct advice *advice, CUmem_advise what, CUmemLocation location)
{
	switch (what) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		advice->is_read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		advice->preferred = location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		advice->preferred = nowhere;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		set_accessed(advice, location, what == CU_MEM_ADVISE_SET_ACCESSED_BY);
		break;
	default:
		advice->prefetched = location;
	}
}

int advised_change(struct advised *advised, uint64_t offset, uint64_t size, CUmem_advise what,
	CUmemLocation location)
{
	struct span *more = array_resize(advised->spans, advised->n + 2ul, sizeof(*more));
	unsigned first, end;

	if (!more)
		return -ENOMEM;
	advised->spans = more;
	first = advised_split(advised, offset - offset % PAGE);
	end = advised_split(advised, ALIGN_UP(offset + size, PAGE));
	for (unsigned i = first; i < end; i++)
		advice_change(&advised->spans[i].advice, what, location);
	join_same(advised);
	return 0;
}

static void advice_meet(CUmemLocation *common, CUmemLocation other)
{
	if (!is_same_location(*common, other))
		*common = nowhere;
}

struct advice advised_common(const struct advised *advised, uint64_t offset, uint64_t size)
{
	unsigned first = span_at(advised, offset), last = span_at(advised, offset + size - 1);
	struct advice common = advised->spans[first].advice;

	for (unsigned i = first + 1; i <= last; i++) {
		const struct advice *other = &advised->spans[i].advice;

		advice_meet(&common.preferred, other->preferred);
		advice_meet(&common.prefetched, other->prefetched);
		common.accessed_by &= other->accessed_by;
		common.is_accessed_by_host &= other->is_accessed_by_host;
		common.is_read_mostly &= other->is_read_mostly;
	}
	return common;
}
