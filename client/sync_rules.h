/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_RULES_H
#define SYNC_RULES_H

/*
 * CUDA's table of synchronous and asynchronous calls: which sets return only when
 * they are done, by the form of the call and the memory (driver API, "API
 * synchronization behavior"). Any thread.
 */

#include "memory.h"
#include "stream.h"

/* Memory as the rules tell it apart. */
enum sync_side {
	SYNC_DEVICE, /* the host cannot look there */
	SYNC_MANAGED,
	SYNC_PINNED,
};

/* Of what memory_find() has found. */
enum sync_side sync_side_of(const struct memory_range *range);

/* Whether the call returns only when it is done; `is_sync': it is no Async function. */
bool sync_set_waits(bool is_sync, enum sync_side dst);

/* The end of a call that waits: its work and all before it on the stream is done. */
CUresult sync_finish(struct stream *stream);

#endif
