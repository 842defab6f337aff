/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver allocates: cuMemAlloc and managed memory. Each is a
 * separate anonymous mapping, so that no memory follows it directly.
 *
 * Runs in any thread, under the driver's lock; memory_free_async() in streams'
 * threads. The caller that frees memory has waited for the work that uses it.
 */

#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "card.h"
#include "client/memory/advice.h"
#include "tests/softgpu/driver/graph/capture.h"
#include "tests/softgpu/driver/graph/graph_memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

#define CHARGE_UNIT 512
#define PITCH_ALIGN 512

static size_t mapped_size(size_t size)
{
	return ALIGN_UP(size, (size_t)sysconf(_SC_PAGESIZE));
}

/*
 * Where the next variables of a module should lie: the driver puts them elsewhere in each process,
 * and a system that does not randomise addresses, or a fork, would not.
 */
static void *place_for_module(size_t size)
{
	const size_t space = (size_t)1 << 30, step = (size_t)64 << 10;
	static uint64_t next;
	void *p;

	if (!next) {
		p = mmap(
			NULL, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		munmap(p, space);
		next = (uint64_t)(uintptr_t)p + (size_t)getpid() % (space / step) * step;
	}
	p = (void *)(uintptr_t)next;
	next += mapped_size(size) + mapped_size(1);
	return p;
}

CUresult memory_alloc(struct context *context, enum range_kind kind, size_t size, unsigned flags,
	struct range **ret_range)
{
	const bool is_device = kind == RANGE_DEVICE || kind == RANGE_MODULE;
	struct range range = {.kind = kind,
		.is_accessible = true,
		.flags = flags,
		.context = context,
		.device = kind == RANGE_HOST ? NULL
			  : context          ? context->device
					     : &driver.devices[0],
		.charged = is_device ? ALIGN_UP(size, CHARGE_UNIT) : 0};
	CUresult result;
	void *p;

	if (size > PTRDIFF_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = is_device ? device_charge(range.device, range.charged) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	p = mmap(kind == RANGE_MODULE ? place_for_module(size) : NULL, mapped_size(size),
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.start = (uint64_t)(uintptr_t)p;
	range.end = range.start + size;
	if (p == MAP_FAILED || range_add(&range, ret_range) < 0) {
		if (p != MAP_FAILED)
			munmap(p, mapped_size(size));
		if (is_device)
			device_refund(range.device, range.charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stat_add(is_device ? STAT_ALLOCATIONS : STAT_HOST_ALLOCATIONS, 1);
	return CUDA_SUCCESS;
}

void memory_free(struct range *range)
{
	const bool is_device = range->kind == RANGE_DEVICE || range->kind == RANGE_MODULE ||
			       range->kind == RANGE_IPC;
	void *p = (void *)(uintptr_t)range->start;
	size_t size = mapped_size(range->end - range->start);

	if (is_device)
		device_refund(range->device, range->charged);
	stat_add(is_device ? STAT_ALLOCATIONS : STAT_HOST_ALLOCATIONS, -1);
	advised_free(range->advised);
	shared_memory_free(range->shared);
	range_remove(range->start);
	munmap(p, size);
}

void memory_free_async(uint64_t address)
{
	struct range *range;

	pthread_mutex_lock(&driver.lock);
	range = range_find(address);
	if (range && range->is_freeing)
		memory_free(range);
	pthread_mutex_unlock(&driver.lock);
}

/* Memory of a pool belongs to no context, unless a stream of it would have freed the memory. */
static bool ends_with_context(const struct range *range, const struct context *context)
{
	return range->context == context && range->kind != RANGE_MAPPED &&
	       (!range->is_pooled || range->is_freeing);
}

void memory_free_context(struct context *context)
{
	struct range *next;

	for (struct range *range = range_next(0); range; range = next) {
		uint64_t end = range->end;

		if (range->context == context && range->kind == RANGE_REGISTERED) {
			range_remove(range->start);
			stat_add(STAT_REGISTRATIONS, -1);
		} else if (ends_with_context(range, context)) {
			memory_free(range);
		} else if (range->graph_memory) {
			graph_memory_end(range->graph_memory, context);
		}
		next = range_next(end);
	}
}

static CUresult memory_new(CUdeviceptr *dptr, size_t size, enum range_kind kind, unsigned flags)
{
	struct range *range;
	CUresult result;

	if (!dptr || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_check_unsafe();
	if (result == CUDA_SUCCESS)
		result = memory_alloc(context_current(), kind, size, flags, &range);
	if (result == CUDA_SUCCESS)
		*dptr = range->start;
	return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	ENTER(CALL_CONTEXT);
	return memory_new(dptr, bytesize, RANGE_DEVICE, 0);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
	unsigned int ElementSizeBytes)
{
	size_t pitch, size;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 || WidthInBytes > PTRDIFF_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	pitch = ALIGN_UP(WidthInBytes, PITCH_ALIGN);
	if (__builtin_mul_overflow(pitch, Height, &size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = memory_new(dptr, size, RANGE_DEVICE, 0);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	ENTER(CALL_CONTEXT);
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_new(dptr, bytesize, RANGE_MANAGED, flags);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct range *range;
	CUresult result;

	ENTER(CALL_OBJECT);
	if (dptr == 0)
		return capture_check_unsafe();
	range = range_find(dptr);
	if (!range || range->start != dptr || range->is_freeing ||
		(range->kind != RANGE_DEVICE && range->kind != RANGE_MANAGED && !range->is_pooled))
		return CUDA_ERROR_INVALID_VALUE;
	result = capture_check_unsafe();
	if (result == CUDA_SUCCESS)
		result = device_wait(range->device ? range->device : range->context->device);
	range = range_find(dptr);
	if (result != CUDA_SUCCESS || !range)
		return result;
	if (range->graph_memory)
		return graph_memory_free(range->graph_memory);
	memory_free(range);
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	const struct device *device;
	size_t used;

	ENTER(CALL_CONTEXT);
	device = context_current()->device;
	used = card_is_shared() ? card_used(device) : device->used;
	if (free)
		*free = device->total - MIN(used, device->total);
	if (total)
		*total = device->total;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	const struct range *range;

	ENTER(CALL_CONTEXT);
	if (!pbase && !psize)
		return CUDA_SUCCESS;
	range = range_find(dptr);
	if (!range || !range_is_reached(range))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = range->start;
	if (psize)
		*psize = range->end - range->start;
	return CUDA_SUCCESS;
}
