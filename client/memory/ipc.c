/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles between processes: the server's tokens for memory, which has the same
 * address in all processes, and for events; and the driver's descriptors of memory for
 * other devices. Any thread of the application.
 *
 * Invariant: memory that another process has open is not reused here. It is kept
 * until the server confirms that it is closed.
 */

#include "ipc.h"

#include <stdatomic.h>
#include <string.h>

#include "calls_memory.h"
#include "clock.h"
#include "lock.h"
#include "pool.h"
#include "client/util/compat.h"
#include "client/transport/route.h"
#include "client/transport/server_link.h"
#include "client/stream/callback.h"
#include "client/stream/event.h"
#include "client/stream/stream.h"
#include "client/stream/timeline.h"
#include "send_memory.h"

#define MEMORY_MAGIC 0x6d656d2d73706d31ull
#define POOLED_MAGIC 0x6c6f6f702d73706dull
#define EVENT_MAGIC 0x7476652d73706d31ull

/* The contents of a CUipcMemHandle, CUipcEventHandle or CUmemPoolPtrExportData. */
struct ticket {
	uint64_t magic;
	uint64_t token[2];
	uint64_t zero[5];
};

_Static_assert(sizeof(struct ticket) == sizeof(CUipcMemHandle), "it fits");
_Static_assert(sizeof(struct ticket) == sizeof(CUipcEventHandle), "it fits");
_Static_assert(sizeof(struct ticket) == sizeof(CUmemPoolPtrExportData), "it fits");

/* Memory that was freed while other processes had it open. */
struct kept {
	struct kept *next;
	struct memory_range range;
	struct stream *stream; /* free when it has reached that seqno; NULL: at once */
	uint64_t seqno;
};

/* Memory of other processes that is open here. */
struct opened {
	struct opened *next;
	uint64_t token[2];
	uint64_t address;
	unsigned n_opens;
};

/* The pause between two looks whether other processes have closed kept memory. */
#define LOOK_NS 500000000u

static struct lock ipc_lock = LOCK_INIT(IPC);
static struct kept *all_kept;
static struct opened *all_opened;

static bool is_open_elsewhere(const struct memory_range *range)
{
	uint32_t is_open = 0;

	return send_ipc_memory_end(range->address, &is_open) == CUDA_SUCCESS && is_open;
}

/* Frees kept memory that has been closed meanwhile. */
static void look_after_kept(void)
{
	struct kept **link = &all_kept;

	while (*link) {
		struct kept *kept = *link;

		if (is_open_elsewhere(&kept->range)) {
			link = &kept->next;
			continue;
		}
		*link = kept->next;
		pool_free_at(kept->range.pool, kept->range.piece, kept->stream, kept->seqno);
		free(kept);
	}
}

/* If the record cannot be allocated, the memory is kept forever. */
bool ipc_may_free(const struct memory_range *range, struct stream *stream)
{
	struct kept *kept;
	bool is_open;

	lock_hold(&ipc_lock);
	look_after_kept();
	is_open = is_open_elsewhere(range);
	kept = is_open ? malloc(sizeof(*kept)) : NULL;
	if (kept) {
		*kept = (struct kept){all_kept, *range, stream, 0};
		if (stream)
			timeline_cover(stream, &kept->seqno);
		all_kept = kept;
		callback_expect_ends();
	}
	return !is_open;
}

bool ipc_free_closed(bool may_ask)
{
	static uint64_t next_ns;
	bool is_waiting;

	if (!lock_try(&ipc_lock))
		return true;
	if (may_ask && all_kept && now_ns() >= next_ns) {
		look_after_kept();
		next_ns = now_ns() + LOOK_NS;
	}
	is_waiting = all_kept;
	lock_release(&ipc_lock);
	return is_waiting;
}

static uint64_t magic_of(enum memory_kind kind)
{
	return kind == MEMORY_IPC ? MEMORY_MAGIC : POOLED_MAGIC;
}

CUresult ipc_give(const struct memory_range *range, enum memory_kind kind, void *ret_ticket)
{
	struct ticket ticket = {.magic = magic_of(kind)};
	CUresult result;

	/* Mark it first: another process may open it as soon as the server has answered. */
	if (!memory_set_exported(range->address, range->kind))
		return CUDA_ERROR_INVALID_VALUE;
	result = send_ipc_memory_export(range->address, range->size, ticket.token);
	if (result == CUDA_SUCCESS)
		memcpy(ret_ticket, &ticket, sizeof(ticket));
	return result;
}

CUresult local_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct memory_range range;

	if (!pHandle || !memory_find(dptr, &range) || range.kind != MEMORY_ALLOCATED)
		return CUDA_ERROR_INVALID_VALUE;
	return ipc_give(&range, MEMORY_IPC, pHandle);
}

static CUresult ticket_read(const void *handle, uint64_t magic, struct ticket *ret_ticket)
{
	static const uint64_t zero[ARRAY_SIZE(ret_ticket->zero)];

	memcpy(ret_ticket, handle, sizeof(*ret_ticket));
	return ret_ticket->magic == magic && memcmp(ret_ticket->zero, zero, sizeof(zero)) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static struct opened *opened_find(const uint64_t token[2])
{
	struct opened *opened = all_opened;

	while (opened && memcmp(opened->token, token, sizeof(opened->token)) != 0)
		opened = opened->next;
	return opened;
}

/* Under the lock. */
static CUresult open_new(struct context *context, struct pool *pool, const struct ticket *ticket,
	struct opened **ret_opened)
{
	struct memory_range range = {
		.context = context, .pool = pool, .kind = pool ? MEMORY_IMPORTED : MEMORY_IPC};
	struct opened *opened = calloc(1, sizeof(*opened));
	uint32_t device = 0;
	CUresult result;

	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_ipc_memory_open(ticket->token, &range.address, &range.size, &device);
	if (result == CUDA_SUCCESS) {
		result = device_reaches_index(context->device, device)
				 ? memory_add(&range)
				 : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
		if (result != CUDA_SUCCESS)
			(void)send_ipc_memory_close(range.address);
	}
	if (result != CUDA_SUCCESS) {
		free(opened);
		return result;
	}
	memcpy(opened->token, ticket->token, sizeof(opened->token));
	opened->address = range.address;
	LIST_PUSH(all_opened, opened);
	if (pool)
		atomic_fetch_add_explicit(&pool->n_opened, 1, memory_order_acq_rel);
	*ret_opened = opened;
	return CUDA_SUCCESS;
}

CUresult ipc_take(struct context *context, struct pool *pool, const void *ticket_bytes,
	CUdeviceptr *ret_address)
{
	struct opened *opened;
	struct ticket ticket;
	CUresult result =
		ticket_read(ticket_bytes, magic_of(pool ? MEMORY_IMPORTED : MEMORY_IPC), &ticket);

	if (result != CUDA_SUCCESS)
		return result;
	lock_hold(&ipc_lock);
	opened = opened_find(ticket.token);
	if (!opened)
		result = open_new(context, pool, &ticket, &opened);
	if (result == CUDA_SUCCESS) {
		opened->n_opens = pool ? 1 : opened->n_opens + 1;
		*ret_address = opened->address;
	}
	return result;
}

/* Under the lock: removes the record of that address. */
static void opened_remove(uint64_t address)
{
	struct opened **link = &all_opened;

	while (*link && (*link)->address != address)
		link = &(*link)->next;
	if (*link) {
		struct opened *opened = *link;

		*link = opened->next;
		free(opened);
	}
}

CUresult ipc_close_range(const struct memory_range *range)
{
	lock_take(&ipc_lock);
	opened_remove(range->address);
	lock_release(&ipc_lock);
	if (range->pool)
		atomic_fetch_sub_explicit(&range->pool->n_opened, 1, memory_order_acq_rel);
	return send_ipc_memory_close(range->address);
}

bool ipc_is_last(uint64_t address)
{
	struct opened *opened;

	lock_hold(&ipc_lock);
	opened = all_opened;
	while (opened && opened->address != address)
		opened = opened->next;
	return opened && --opened->n_opens == 0;
}

CUresult local_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	const struct event *found = slab_find(&events, event);
	struct ticket ticket = {.magic = EVENT_MAGIC};
	CUresult result;

	if (!found || !(found->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	result = send_ipc_event_export(
		slab_id(&events, found), found->context->device->index, ticket.token);
	if (result == CUDA_SUCCESS)
		memcpy(pHandle, &ticket, sizeof(ticket));
	return result;
}

CUresult local_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ticket ticket;
	CUresult result = ticket_read(&handle, EVENT_MAGIC, &ticket);

	return result == CUDA_SUCCESS ? event_open(context_current, ticket.token, phEvent) : result;
}

static CUresult get_dmabuf(CUdeviceptr address, size_t size, int *ret_fd)
{
	CUresult result;

	/* The answer to a process that has no space for its descriptor would be lost. */
	if (!descriptor_has_space())
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_hold(&server.reading);
	result = send_memory_dmabuf(address, size);
	if (result == CUDA_SUCCESS && server_link_read_memory(&server, address, size, ret_fd) < 0)
		result = CUDA_ERROR_MPS_RPC_FAILURE;
	return result;
}

CUresult local_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType handleType, unsigned long long flags)
{
	CUresult result;
	int fd = -EBADF;

	if (!handle || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || size == 0 ||
		(dptr | size) % MEMORY_PAGE != 0 || !memory_has_pages(dptr, size) ||
		(flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))
		return CUDA_ERROR_INVALID_VALUE;
	/* Only machines whose GPU has another way to the processor know this flag. */
	if (flags != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = get_dmabuf(dptr, size, &fd);
	if (result == CUDA_SUCCESS)
		*(int *)handle = fd;
	return result;
}
