/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_RULES_H
#define SYNC_RULES_H

/*
 * CUDA's rules for synchronous and asynchronous calls: which copies and sets return
 * only when they are done, by the form of the call and the memory at both ends
 * (driver API, "API synchronization behavior"). Any thread.
 */

#include "memory.h"
#include "client/stream/stream.h"

/* Memory as the rules distinguish it. The GPU can access all kinds but the last two. */
enum sync_side {
	SYNC_DEVICE,        /* the host cannot access it */
	SYNC_DEVICE_ALWAYS, /* the same, with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS set */
	SYNC_MANAGED,
	SYNC_MANAGED_HOST, /* the same, named by a host pointer in the call */
	SYNC_PINNED,
	SYNC_REGISTERED, /* pinned by CUDA's rules, but no other process can pin it */
	SYNC_PAGEABLE,
};

static inline bool sync_is_reached(enum sync_side side)
{
	return side <= SYNC_PINNED;
}

static inline bool sync_is_host(enum sync_side side)
{
	return side >= SYNC_PINNED;
}

/* For an address as the GPU knows it, or for the result of memory_find(). */
enum sync_side sync_side_at(CUdeviceptr address);
enum sync_side sync_side_of(const struct memory_range *range);

/* The side as a call names it; `as_host': by a host pointer. */
enum sync_side sync_side_named(enum sync_side side, bool as_host);

/*
 * Whether the call returns only when the work is done; `is_sync': not an Async
 * function. Asynchronous copies depend on the memory, not on the pointers that name
 * it: copies within host memory wait, and so do copies of managed memory that is
 * named as host memory.
 */
bool sync_copy_waits(bool is_sync, enum sync_side dst, enum sync_side src);
bool sync_set_waits(bool is_sync, enum sync_side dst);

/* Before the host itself reads the source: waits for work on the stream that may write there. */
CUresult sync_before_read(struct stream *stream, bool is_sync, enum sync_side src);

/* The end of a call that waits, until its work and all earlier work on the stream is done. */
CUresult sync_finish(struct stream *stream);

/* The end of a synchronous call that does not wait; and the wait for all such calls on a device. */
void sync_leave(struct stream *stream);
CUresult sync_catch_up(unsigned device);

#endif
