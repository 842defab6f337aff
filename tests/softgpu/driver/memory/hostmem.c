/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the GPU can reach: allocated here, or registered by the program.
 * Its device pointer is always its host pointer.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"
#include "tests/softgpu/driver/stream/context.h"

#define ALLOC_FLAGS                                                                                \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
		CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult host_alloc(void **pp, size_t size, unsigned flags)
{
	struct range *range;
	CUresult result;

	if (!pp || (flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	*pp = NULL;
	if (size == 0)
		return CUDA_SUCCESS;
	flags |= CU_MEMHOSTALLOC_DEVICEMAP; /* with unified addressing, all of it is mapped */
	result = memory_alloc(context_current(), RANGE_HOST, size, flags, &range);
	if (result == CUDA_SUCCESS)
		*pp = (void *)(uintptr_t)range->start;
	return result;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	ENTER(CALL_CONTEXT);
	return host_alloc(pp, bytesize, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	ENTER(CALL_CONTEXT);
	return host_alloc(pp, bytesize, 0);
}

static struct range *host_find(const void *p)
{
	struct range *range = range_find((uint64_t)(uintptr_t)p);

	return range && !range->is_pooled &&
			       (range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED)
		       ? range
		       : NULL;
}

CUresult cuMemFreeHost(void *p)
{
	struct range *range;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (!p)
		return CUDA_SUCCESS;
	range = host_find(p);
	if (!range || range->kind != RANGE_HOST || range->start != (uint64_t)(uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_wait(range->context);
	range = host_find(p);
	if (result != CUDA_SUCCESS || !range)
		return result;
	memory_free(range);
	return CUDA_SUCCESS;
}

/* Makes every page present, as pinning does; false if a page cannot be. */
static bool pages_populate(void *p, size_t size, bool is_read_only)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)p & ~(page - 1);
	size_t len = ALIGN_UP((uintptr_t)p + size, page) - start;
	int advice = is_read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
	void *first = (void *)start;

	/* EINVAL: a kernel before 5.14, or memory without pages of its own. */
	return madvise(first, len, advice) == 0 || errno == EINVAL;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct range range = {.start = (uint64_t)(uintptr_t)p,
		.end = (uint64_t)(uintptr_t)p + bytesize,
		.kind = RANGE_REGISTERED,
		.flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
		.is_accessible = true};
	struct range *added;
	int r;

	ENTER(CALL_CONTEXT);
	if (!p || bytesize == 0 || range.end < range.start || (Flags & ~(unsigned)REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (range_overlaps(range.start, range.end))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!pages_populate(p, bytesize, Flags & CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_INVALID_VALUE;
	range.context = context_current();
	r = range_add(&range, &added);
	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stat_add(STAT_REGISTRATIONS, 1);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
	const struct range *range;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	range = host_find(p);
	if (!range || range->kind != RANGE_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range->start != (uint64_t)(uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	/* As driver 580 does on an H200. Meanwhile the memory may be unregistered elsewhere. */
	result = device_wait(range->context->device);
	if (result != CUDA_SUCCESS)
		return result;
	range = host_find(p);
	if (!range || range->kind != RANGE_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (driver.unpin_us > 0)
		usleep(driver.unpin_us);
	range_remove(range->start);
	stat_add(STAT_REGISTRATIONS, -1);
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	ENTER(CALL_CONTEXT);
	if (!pdptr || !p || Flags != 0 || !host_find(p))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	const struct range *range;

	ENTER(CALL_CONTEXT);
	range = host_find(p);
	if (!pFlags || !range)
		return CUDA_ERROR_INVALID_VALUE;
	/* As driver 580 on an H100. */
	*pFlags = range->flags & ~(unsigned)CU_MEMHOSTREGISTER_READ_ONLY;
	return CUDA_SUCCESS;
}
