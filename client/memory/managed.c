/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Managed memory: pinned memory that never moves; advice about it, prefetching and
 * discarding, for one range or many, and queries about a range. Any thread of the
 * application.
 *
 * Invariant: each allocation has its advice (advice.h), which only changes the
 * answers to queries. A prefetch notes a location there. A refused batch has noted nothing.
 */

#include "managed.h"

#include "advice.h"
#include "calls_memory.h"
#include "host.h"
#include "lock.h"
#include "pool.h"
#include "wire.h"
#include "client/stream/stream.h"

static struct lock advice_lock = LOCK_INIT(ADVICE);

CUresult managed_new(struct memory_range *range)
{
	CUresult result;

	range->kind = MEMORY_MANAGED;
	range->advised = advised_new(range->size);
	if (!range->advised)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = host_new(range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && range->size <= WIRE_HOST_MAX &&
		pools_make_space(range->context->device))
		result = host_new(range);
	if (result != CUDA_SUCCESS)
		advised_free(range->advised);
	return result;
}

CUresult local_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_range range = {
		.size = bytesize,
		.flags = flags,
		.context = context_current,
	};
	CUresult result = managed_new(&range);

	if (result == CUDA_SUCCESS)
		*dptr = range.address;
	return result;
}

void managed_forget(const struct memory_range *range)
{
	if (!range->advised)
		return;
	lock_hold(&advice_lock);
	advised_free(range->advised);
}

/* Whether it is within one managed allocation. */
static bool find_managed(CUdeviceptr ptr, size_t size, struct memory_range *ret_range)
{
	return size > 0 && memory_find(ptr, ret_range) && memory_is_managed(ret_range) &&
	       range_ok(ptr - ret_range->address, size, ret_range->size);
}

static CUresult managed_check(CUdeviceptr ptr, size_t size)
{
	struct memory_range range;

	return find_managed(ptr, size, &range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult managed_advise(
	CUdeviceptr ptr, size_t size, CUmem_advise what, CUmemLocation location)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	lock_hold(&advice_lock);
	if (find_managed(ptr, size, &range)) {
		/* The place of a pool is the only advice about its memory. */
		if (range.pool && what != ADVICE_PREFETCH)
			result = CUDA_ERROR_NOT_SUPPORTED;
		else
			result = advised_change(range.advised, ptr - range.address, size, what,
					 location) < 0
					 ? CUDA_ERROR_OUT_OF_MEMORY
					 : CUDA_SUCCESS;
	}
	return result;
}

static CUresult managed_advice(CUdeviceptr ptr, size_t size, struct advice *ret_advice)
{
	struct memory_range range;
	bool is_managed;

	lock_hold(&advice_lock);
	is_managed = find_managed(ptr, size, &range);
	if (is_managed)
		*ret_advice = advised_common(range.advised, ptr - range.address, size);
	return is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuStreamAttachMemAsync(
	struct stream *stream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct memory_range range;

	return find_managed(dptr, MAX(length, 1), &range) && !range.pool ? CUDA_SUCCESS
									 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_location(CUmemLocation *location)
{
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return advice_check_host(location);
	return device_get(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static bool names_no_location(CUmem_advise advice)
{
	return advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
	       advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
	       advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
}

static bool is_part_of_host(CUmemLocationType type)
{
	return type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/*
 * A GPU or the host accesses memory, not a NUMA node. The driver accepts a
 * NUMA node as the preferred location, but then reports that there is none.
 */
static CUresult check_advised(CUmem_advise advice, CUmemLocation *location)
{
	CUresult result;

	if (names_no_location(advice))
		return CUDA_SUCCESS;
	if (advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION && is_part_of_host(location->type))
		return CUDA_ERROR_INVALID_VALUE;
	result = check_location(location);
	if (result == CUDA_SUCCESS && is_part_of_host(location->type))
		*location = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
	return result;
}

CUresult local_cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	CUresult result = check_advised(advice, &location);

	return result == CUDA_SUCCESS ? managed_advise(devPtr, count, advice, location) : result;
}

CUresult local_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream)
{
	struct stream *stream;
	CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : check_location(&location);

	if (result == CUDA_SUCCESS)
		result = managed_check(devPtr, count);
	if (result == CUDA_SUCCESS)
		result = stream_resolve(context_current, hStream, &stream);
	return result == CUDA_SUCCESS ? managed_advise(devPtr, count, ADVICE_PREFETCH, location)
				      : result;
}

/* The checks that all batches of ranges share. */
static CUresult check_ranges(const CUdeviceptr *ptrs, const size_t *sizes, size_t count,
	unsigned long long flags, CUstream handle)
{
	struct context *context;
	struct stream *stream;
	CUresult result;

	if (!ptrs || !sizes || count == 0 || flags != 0 || !handle || handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_enter(&context);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = managed_check(ptrs[i], sizes[i]);
	return result == CUDA_SUCCESS ? stream_resolve(context, handle, &stream) : result;
}

static CUresult check_locations(
	const CUmemLocation *locations, const size_t *first, size_t n, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	if (!locations || !first || n == 0 || n > count || first[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		CUmemLocation location = locations[i];

		if (first[i] >= count || (i > 0 && first[i] <= first[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
		result = check_location(&location);
	}
	return result;
}

CUresult local_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	CUresult result = check_ranges(dptrs, sizes, count, flags, hStream);
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

	if (result == CUDA_SUCCESS)
		result = check_locations(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, count);
	for (size_t i = 0, k = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (k < numPrefetchLocs && prefetchLocIdxs[k] == i) {
			location = prefetchLocs[k++];
			(void)check_location(&location);
		}
		result = managed_advise(dptrs[i], sizes[i], ADVICE_PREFETCH, location);
	}
	return result;
}

/* The bytes are undefined after a discard; here they stay. */
CUresult local_cuMemDiscardBatchAsync(
	CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream)
{
	return check_ranges(dptrs, sizes, count, flags, hStream);
}

/* Lists the devices, then the host, and fills the rest of the array with "none". */
static void write_accessed_by(const struct advice *advice, int *ids, size_t n)
{
	size_t k = 0;

	for (int ordinal = 0; ordinal < 64 && k < n; ordinal++)
		if (advice->accessed_by & (1ull << ordinal))
			ids[k++] = ordinal;
	if (advice->is_accessed_by_host && k < n)
		ids[k++] = CU_DEVICE_CPU;
	while (k < n)
		ids[k++] = CU_DEVICE_INVALID;
}

/* A location as one number; all of the host is one location. */
static int number_of(CUmemLocation location)
{
	switch (location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location.id;
	case CU_MEM_LOCATION_TYPE_INVALID:
		return CU_DEVICE_INVALID;
	default:
		return CU_DEVICE_CPU;
	}
}

static bool read_attribute(
	const struct advice *advice, CUmem_range_attribute attribute, int *ret_value)
{
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*ret_value = advice->is_read_mostly;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*ret_value = number_of(advice->preferred);
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*ret_value = number_of(advice->prefetched);
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*ret_value = (int)advice->preferred.type;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*ret_value = advice->preferred.id;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*ret_value = (int)advice->prefetched.type;
		return true;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*ret_value = advice->prefetched.id;
		return true;
	default:
		return false;
	}
}

static CUresult range_attribute(
	void *data, size_t size, CUmem_range_attribute attribute, const struct advice *advice)
{
	int value;

	if (!data || size == 0 || size % sizeof(int) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
		write_accessed_by(advice, data, size / sizeof(int));
		return CUDA_SUCCESS;
	}
	if (size != sizeof(int) || !read_attribute(advice, attribute, &value))
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)data = value;
	return CUDA_SUCCESS;
}

CUresult local_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
	CUmem_range_attribute *attributes, size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	struct advice advice;
	CUresult result = managed_advice(devPtr, count, &advice);

	for (size_t i = 0; i < numAttributes && result == CUDA_SUCCESS; i++)
		result = range_attribute(data[i], dataSizes[i], attributes[i], &advice);
	return result;
}
