/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Managed memory: pinned memory that never moves. Any thread of the application.
 *
 * Invariant: each allocation has its advice (advice.h), which only changes the
 * answers to queries.
 */

#include "managed.h"

#include "advice.h"
#include "client.h"
#include "host.h"
#include "client/stream/stream.h"

static pthread_mutex_t advice_lock = PTHREAD_MUTEX_INITIALIZER;

#define ATTACH_FLAGS (CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE)

CUresult local_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_range range = {
		.size = bytesize,
		.kind = MEMORY_MANAGED,
		.flags = flags,
		.context = context_current,
	};
	CUresult result;

	if (!dptr || bytesize == 0 ||
		(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	range.advised = advised_new(bytesize);
	if (!range.advised)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = host_new(&range);
	if (result != CUDA_SUCCESS) {
		advised_free(range.advised);
		return result;
	}
	*dptr = range.address;
	return CUDA_SUCCESS;
}

void managed_forget(const struct memory_range *range)
{
	if (!range->advised)
		return;
	pthread_mutex_lock(&advice_lock);
	advised_free(range->advised);
	pthread_mutex_unlock(&advice_lock);
}

/* Whether it is within one managed allocation. */
static bool find_managed(CUdeviceptr ptr, size_t size, struct memory_range *ret_range)
{
	return size > 0 && memory_find(ptr, ret_range) && memory_is_managed(ret_range) &&
	       range_ok(ptr - ret_range->address, size, ret_range->size);
}

CUresult managed_check(CUdeviceptr ptr, size_t size)
{
	struct memory_range range;

	return find_managed(ptr, size, &range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult managed_advise(CUdeviceptr ptr, size_t size, CUmem_advise what, CUmemLocation location)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&advice_lock);
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
	pthread_mutex_unlock(&advice_lock);
	return result;
}

CUresult managed_advice(CUdeviceptr ptr, size_t size, struct advice *ret_advice)
{
	struct memory_range range;
	bool is_managed;

	pthread_mutex_lock(&advice_lock);
	is_managed = find_managed(ptr, size, &range);
	if (is_managed)
		*ret_advice = advised_common(range.advised, ptr - range.address, size);
	pthread_mutex_unlock(&advice_lock);
	return is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuStreamAttachMemAsync(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct memory_range range;
	struct stream *stream;
	CUresult result = stream_resolve(context_current, hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags == 0 || (flags & (flags - 1)) || (flags & ~(unsigned)ATTACH_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return find_managed(dptr, MAX(length, 1), &range) && !range.pool ? CUDA_SUCCESS
									 : CUDA_ERROR_INVALID_VALUE;
}
