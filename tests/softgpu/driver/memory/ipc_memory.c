/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process in another: cuIpcGetMemHandle and the calls that open it.
 *
 * Runs in any thread, under the driver's lock. Memory becomes shared when its handle is
 * first asked for: until then a descriptor for each allocation would be too many.
 */

#include <string.h>
#include <sys/mman.h>

#include "memory.h"
#include "tests/softgpu/driver/ipc.h"
#include "tests/softgpu/driver/stream/context.h"

/* The memfd of a range; `fd' is -1 in the process that opened it. */
struct shared_memory {
	int fd;
	uint64_t dev, inode;
	uint32_t n_opens; /* by cuIpcOpenMemHandle() in this process */
};

_Static_assert(sizeof(struct ipc_ticket) <= sizeof(CUipcMemHandle), "a ticket is a handle");

void shared_memory_free(struct shared_memory *shared)
{
	if (!shared)
		return;
	if (shared->fd >= 0)
		close(shared->fd);
	free(shared);
}

static CUresult result_of(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? CUDA_ERROR_OUT_OF_MEMORY
							    : CUDA_ERROR_INVALID_VALUE;
}

/* Replaces the range's private memory by a memfd with the same bytes. The GPU is idle. */
static int range_share(struct range *range)
{
	void *at = (void *)(uintptr_t)range->start;
	size_t size = range->end - range->start;
	_cleanup_close_ int fd = ipc_memfd_new(size);
	struct shared_memory *shared;
	void *copy;

	if (fd < 0)
		return fd;
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (copy == MAP_FAILED)
		return -errno;
	memcpy(copy, at, size);
	munmap(copy, size);
	shared = calloc(1, sizeof(*shared));
	if (!shared)
		return -ENOMEM;
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		free(shared);
		return -ENOMEM;
	}
	shared->fd = TAKE_FD(fd);
	range->shared = shared;
	return 0;
}

static CUresult handle_get(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct range *range = range_find(address);
	struct ipc_ticket ticket;
	CUresult result;
	int r = 0;

	if (!handle || !range || !range_is_shareable(range))
		return CUDA_ERROR_INVALID_VALUE;
	result = range->shared ? CUDA_SUCCESS : device_wait(range->device);
	range = range_find(address);
	if (result != CUDA_SUCCESS || !range)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
	if (!range->shared)
		r = range_share(range);
	if (r == 0)
		r = ipc_ticket_fill(IPC_MEMORY, range->shared->fd, range->end - range->start,
			(uint32_t)range->device->ordinal, &ticket);
	if (r < 0)
		return result_of(r);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ticket, sizeof(ticket));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	ENTER(CALL_CONTEXT);
	return handle_get(pHandle, dptr);
}

/* What this process has already opened of the ticket; NULL: nothing. */
static struct range *range_opened(const struct ipc_ticket *ticket)
{
	for (struct range *range = range_next(0); range; range = range_next(range->end))
		if (range->kind == RANGE_IPC && range->shared->dev == ticket->dev &&
			range->shared->inode == ticket->inode)
			return range;
	return NULL;
}

/* The device with that number in the machine; NULL: this process does not see it. */
static struct device *device_find(uint32_t ordinal)
{
	for (int i = 0; i < driver.n_devices; i++)
		if ((uint32_t)driver.devices[i].ordinal == ordinal)
			return &driver.devices[i];
	return NULL;
}

static int range_open(const struct ipc_ticket *ticket, struct range **ret_range)
{
	struct range range = {.kind = RANGE_IPC,
		.is_accessible = true,
		.context = context_current(),
		.device = device_find(ticket->device)};
	_cleanup_close_ int fd = ipc_ticket_open(ticket, IPC_MEMORY);
	struct shared_memory *shared;
	void *p;

	if (fd < 0)
		return fd;
	if (!range.device)
		range.device = range.context->device;
	p = mmap(NULL, ticket->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	shared = calloc(1, sizeof(*shared));
	range.start = (uint64_t)(uintptr_t)p;
	range.end = range.start + ticket->size;
	range.shared = shared;
	if (!shared || range_add(&range, ret_range) < 0) {
		munmap(p, ticket->size);
		free(shared);
		return -ENOMEM;
	}
	*shared = (struct shared_memory){-1, ticket->dev, ticket->inode, 0};
	stat_add(STAT_ALLOCATIONS, 1);
	return 0;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct ipc_ticket ticket;
	struct range *range;
	int r = 0;

	ENTER(CALL_CONTEXT);
	memcpy(&ticket, &handle, sizeof(ticket));
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	/* As the driver: the process that has the memory cannot open it. */
	if (ticket.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	range = range_opened(&ticket);
	if (!range)
		r = range_open(&ticket, &range);
	if (r < 0)
		return result_of(r);
	range->shared->n_opens++;
	*pdptr = range->start;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct range *range;
	CUresult result;

	ENTER(CALL_CONTEXT);
	range = range_find(dptr);
	if (!range || range->start != dptr || range->kind != RANGE_IPC)
		return CUDA_ERROR_INVALID_VALUE;
	result = device_wait(range->device);
	range = range_find(dptr);
	if (result == CUDA_SUCCESS && range && range->kind == RANGE_IPC &&
		--range->shared->n_opens == 0)
		memory_free(range);
	return result;
}
