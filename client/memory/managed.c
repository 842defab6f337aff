/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Managed memory: pinned memory that never moves. Any thread of the application.
 *
 * Invariant: each allocation has its advice (advice.h), which only changes the
 * answers to queries.
 */

#include "advice.h"
#include "client.h"
#include "host.h"
#include "managed.h"
#include "client/stream/stream.h"

static pthread_mutex_t advice_lock = PTHREAD_MUTEX_INITIALIZER;

#define ATTACH_FLAGS (CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE)

CUresult local_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_range range = {
		.size = bytesize,
		.kind = MEMORY_MANAGED,
		.flags = flags,
	};
	CUresult result = context_enter(&range.context);

	if (result != CUDA_SUCCESS)
		return result;
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
	pthread_mutex_lock(&advice_lock);
	advised_free(range->advised);
	pthread_mutex_unlock(&advice_lock);
}

/* Under the lock: the advice of the allocation, and the offset in it. NULL: not managed memory. */
static struct advised *find_advised(CUdeviceptr ptr, size_t size, uint64_t *ret_offset)
{
	struct memory_range range;

	if (size == 0 || !memory_find(ptr, &range) || range.kind != MEMORY_MANAGED ||
		!range_ok(ptr - range.address, size, range.size))
		return NULL;
	*ret_offset = ptr - range.address;
	return range.advised;
}

CUresult managed_check(CUdeviceptr ptr, size_t size)
{
	struct advice advice;

	return managed_advice(ptr, size, &advice);
}

CUresult managed_advise(CUdeviceptr ptr, size_t size, CUmem_advise what, CUmemLocation location)
{
	struct advised *advised;
	uint64_t offset;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&advice_lock);
	advised = find_advised(ptr, size, &offset);
	if (advised)
		result = advised_change(advised, offset, size, what, location) < 0
				 ? CUDA_ERROR_OUT_OF_MEMORY
				 : CUDA_SUCCESS;
	pthread_mutex_unlock(&advice_lock);
	return result;
}

CUresult managed_advice(CUdeviceptr ptr, size_t size, struct advice *ret_advice)
{
	const struct advised *advised;
	uint64_t offset;

	pthread_mutex_lock(&advice_lock);
	advised = find_advised(ptr, size, &offset);
	if (advised)
		*ret_advice = advised_common(advised, offset, size);
	pthread_mutex_unlock(&advice_lock);
	return advised ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuStreamAttachMemAsync(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context, hStream, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags == 0 || (flags & (flags - 1)) || (flags & ~(unsigned)ATTACH_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return managed_check(dptr, length > 0 ? length : 1);
}
