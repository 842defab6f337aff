/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's table of synchronous and asynchronous calls. Any thread of the
 * application.
 *
 * Invariant: no other file decides by the kind of memory whether a copy or a set
 * is waited for.
 */

#include "link.h"
#include "registered.h"
#include "sync_rules.h"

enum sync_side sync_side_of(const struct memory_range *range)
{
	switch (range->kind) {
	case MEMORY_PINNED:
	case MEMORY_ALIAS:
		return SYNC_PINNED;
	case MEMORY_REGISTERED:
		return SYNC_REGISTERED;
	case MEMORY_MANAGED:
		return SYNC_MANAGED;
	default:
		return SYNC_DEVICE;
	}
}

enum sync_side sync_side_at(CUdeviceptr address)
{
	struct memory_range range;

	if (memory_find(address, &range) || registered_find(address, &range))
		return sync_side_of(&range);
	return SYNC_PAGEABLE;
}

/*
 * The table of CUDA 13 names host memory alone. Managed memory was synchronous by that of
 * CUDA 12 and before, which is the safe way to read the new one.
 */
bool sync_copy_waits(bool is_sync, enum sync_side dst, enum sync_side src)
{
	if (sync_is_host(dst) && sync_is_host(src))
		return true;
	return is_sync && (dst != SYNC_DEVICE || src != SYNC_DEVICE);
}

bool sync_set_waits(bool is_sync, enum sync_side dst)
{
	return is_sync && dst != SYNC_DEVICE;
}

/*
 * A synchronous copy of pageable memory begins with a wait for its stream. Of registered memory
 * the GPU would read the bytes in its turn, whatever the call.
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

	return result == CUDA_SUCCESS ? link_late_error(&server) : result;
}
