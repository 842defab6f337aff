/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of the program's own that it registers: recorded, and nothing more,
 * as no other process can pin it. Any thread of the application.
 *
 * Invariant: the GPU never reaches it; copies go by way of staging.
 */

#include <pthread.h>
#include <sys/mman.h>

#include "client.h"
#include "mirror.h"
#include "registered.h"

#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
		CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mirror registered;

bool registered_find(uint64_t address, struct memory_range *ret_range)
{
	const struct memory_range *range;

	pthread_mutex_lock(&registered_lock);
	range = mirror_find(&registered, address);
	if (range)
		*ret_range = *range;
	pthread_mutex_unlock(&registered_lock);
	return range;
}

void registered_end_context(const struct context *context)
{
	const struct memory_range *range;
	uint64_t at = 0;

	pthread_mutex_lock(&registered_lock);
	while ((range = mirror_next(&registered, at))) {
		at = range->address + 1;
		if (range->context == context)
			mirror_remove(&registered, range->address);
	}
	pthread_mutex_unlock(&registered_lock);
}

static CUresult add(struct memory_range *range)
{
	struct memory_range there;
	int r;

	if (memory_find(range->address, &there))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	range->id = memory_new_id();
	pthread_mutex_lock(&registered_lock);
	r = mirror_add(&registered, range);
	pthread_mutex_unlock(&registered_lock);
	if (r == 0)
		return CUDA_SUCCESS;
	return r == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Pages looked at by one mincore(). */
#define LOOK_PAGES 4096u

static bool is_mapped(uintptr_t address, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = address & ~(page - 1), end = address + size;
	unsigned char present[LOOK_PAGES];

	for (; at < end; at += LOOK_PAGES * page)
		if (mincore((void *)at, MIN(end - at, LOOK_PAGES * page), present) < 0)
			return false;
	return true;
}

CUresult local_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct memory_range range = {
		.address = (uintptr_t)p,
		.size = bytesize,
		.kind = MEMORY_REGISTERED,
		.flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
	};
	CUresult result = context_enter(&range.context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!p || bytesize == 0 || (Flags & ~(unsigned)REGISTER_FLAGS) ||
		!range_ok((uintptr_t)p, bytesize, UINTPTR_MAX))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_mapped((uintptr_t)p, bytesize))
		return CUDA_ERROR_INVALID_VALUE;
	return add(&range);
}

CUresult local_cuMemHostUnregister(void *p)
{
	struct memory_range range;
	struct context *context;
	CUresult result = context_enter(&context);
	bool is_removed;

	if (result != CUDA_SUCCESS)
		return result;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!registered_find((uintptr_t)p, &range))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	pthread_mutex_lock(&registered_lock);
	is_removed = mirror_remove(&registered, (uintptr_t)p);
	pthread_mutex_unlock(&registered_lock);
	return is_removed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
