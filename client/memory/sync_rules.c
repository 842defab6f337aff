/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's rules for synchronous and asynchronous calls. Any thread of the
 * application.
 *
 * Invariant: only this file decides by the kind of memory whether a copy or a set
 * waits.
 */

#include "sync_rules.h"

#include <stdatomic.h>

#include "registered.h"
#include "client/transport/server_link.h"
#include "client/stream/timeline.h"

enum sync_side sync_side_of(const struct memory_range *range)
{
	if (memory_is_pinned(range))
		return memory_is_admitted(range) ? SYNC_PINNED : SYNC_PAGEABLE;
	if (range->kind == MEMORY_ALIAS)
		return SYNC_PINNED;
	if (memory_is_managed(range))
		return SYNC_MANAGED;
	if (range->kind == MEMORY_REGISTERED)
		return SYNC_REGISTERED;
	return range->is_sync ? SYNC_DEVICE_ALWAYS : SYNC_DEVICE;
}

enum sync_side sync_side_at(CUdeviceptr address)
{
	struct memory_range range;

	if (memory_find(address, &range) || registered_find(address, &range))
		return sync_side_of(&range);
	return SYNC_PAGEABLE;
}

enum sync_side sync_side_named(enum sync_side side, bool as_host)
{
	return side == SYNC_MANAGED && as_host ? SYNC_MANAGED_HOST : side;
}

/* Whether the program wants synchronous calls to always wait. */
static bool is_sync_context(void)
{
	return context_current->flags & CU_CTX_SYNC_MEMOPS;
}

/*
 * CUDA 13's table mentions only host memory. In the table of CUDA 12 and earlier,
 * managed memory was synchronous; this is the safe reading of the new table. Driver
 * 580 behaves so, and it waits for asynchronous copies that name managed memory as
 * host memory.
 */
bool sync_copy_waits(bool is_sync, enum sync_side dst, enum sync_side src)
{
	if (sync_is_host(dst) && sync_is_host(src))
		return true;
	if (dst == SYNC_MANAGED_HOST || src == SYNC_MANAGED_HOST)
		return true;
	return is_sync && (dst != SYNC_DEVICE || src != SYNC_DEVICE || is_sync_context());
}

bool sync_set_waits(bool is_sync, enum sync_side dst)
{
	return is_sync && (dst != SYNC_DEVICE || is_sync_context());
}

/*
 * A synchronous copy of pageable memory starts with a wait for its stream. From
 * registered memory the GPU would read the bytes in stream order, in every form of
 * the call.
 */
CUresult sync_before_read(struct stream *stream, bool is_sync, enum sync_side src)
{
	if (src == SYNC_REGISTERED)
		return stream_wait_turn(stream);
	return src == SYNC_PAGEABLE && is_sync ? stream_wait(stream) : CUDA_SUCCESS;
}

CUresult sync_finish(struct stream *stream)
{
	CUresult result = stream_wait(stream);

	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

/* Called after the work was posted: the next seqno comes behind that work. */
void sync_leave(struct stream *stream)
{
	uint64_t seqno = atomic_load_explicit(&stream->posted_seqno, memory_order_acquire) + 1;

	atomic_store_explicit(&stream->sync_seqno, seqno, memory_order_release);
}

CUresult sync_catch_up(unsigned device)
{
	unsigned n = streams_ever();
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		uint64_t sync_seqno =
				 atomic_load_explicit(&streams[i].sync_seqno, memory_order_acquire),
			 seqno;

		if (sync_seqno == 0 ||
			atomic_load_explicit(&streams[i].device, memory_order_relaxed) != device ||
			timeline_reached(&streams[i], sync_seqno))
			continue;
		result = timeline_post(&streams[i], &seqno);
		if (result == CUDA_SUCCESS)
			result = timeline_wait(&streams[i], MIN(sync_seqno, seqno));
	}
	return result;
}
