/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_RULES_H
#define SYNC_RULES_H

/*
 * CUDA's table of synchronous and asynchronous calls: which copies and sets return
 * only when they are done, by the form of the call and the memory at their ends
 * (driver API, "API synchronization behavior"). Any thread.
 */

#include "memory.h"
#include "client/stream/stream.h"

/* Memory as the rules tell it apart. The GPU reaches all of it but the last two. */
enum sync_side {
	SYNC_DEVICE,        /* the host cannot look there */
	SYNC_DEVICE_ALWAYS, /* the same, with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS set */
	SYNC_MANAGED,
	SYNC_MANAGED_HOST, /* the same, which the call names by a pointer of the host's */
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

/* Of an address by the name that the GPU has for it, and of what memory_find() has found. */
enum sync_side sync_side_at(CUdeviceptr address);
enum sync_side sync_side_of(const struct memory_range *range);

/* The side as a call names it; `as_host': by a pointer of the host's. */
enum sync_side sync_side_named(enum sync_side side, bool as_host);

/*
 * Whether the call returns only when it is done; `is_sync': it is no Async function. Asynchronous
 * copies go by the memory, not by the pointers that name it: within host memory they are waited
 * for. So are those of managed memory that is named as the host's.
 */
bool sync_copy_waits(bool is_sync, enum sync_side dst, enum sync_side src);
bool sync_set_waits(bool is_sync, enum sync_side dst);

/* Before the host reads the source by itself: waits for what the stream may yet write there. */
CUresult sync_before_read(struct stream *stream, bool is_sync, enum sync_side src);

/* The end of a call that waits: its work and all before it on the stream is done. */
CUresult sync_finish(struct stream *stream);

/* The end of a synchronous call that does not wait, and the wait for all such on a device. */
void sync_leave(struct stream *stream);
CUresult sync_catch_up(unsigned device);

#endif
