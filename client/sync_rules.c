/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's table of synchronous and asynchronous calls. Any thread of the
 * application.
 *
 * Invariant: no other file decides by the kind of memory whether a set is waited
 * for.
 */

#include "link.h"
#include "sync_rules.h"

enum sync_side sync_side_of(const struct memory_range *range)
{
	switch (range->kind) {
	case MEMORY_PINNED:
	case MEMORY_ALIAS:
		return SYNC_PINNED;
	case MEMORY_MANAGED:
		return SYNC_MANAGED;
	default:
		return SYNC_DEVICE;
	}
}

/*
 * The table of CUDA 13 names host memory alone. Managed memory was synchronous by that of
 * CUDA 12 and before, which is the safe way to read the new one.
 */
bool sync_set_waits(bool is_sync, enum sync_side dst)
{
	return is_sync && dst != SYNC_DEVICE;
}

CUresult sync_finish(struct stream *stream)
{
	CUresult result = stream_wait(stream);

	return result == CUDA_SUCCESS ? link_late_error(&server) : result;
}
