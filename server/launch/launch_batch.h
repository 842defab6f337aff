/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_BATCH_H
#define LAUNCH_BATCH_H

/*
 * Launch batches. Plain launches for one stream that wait in the ring together go to the
 * driver as one graph: a chain of kernel nodes, instantiated once and changed for each run.
 * On an H200 that takes 1.3 us per kernel where a launch takes 3, and workers that launch at
 * the same time rarely meet at the context's lock.
 *
 * The session's worker only.
 */

#include "server/driver/driver.h"

struct session;
struct session_room;
struct stream;
struct chain_cache;
struct kernel;

/* Beyond 32 a batch gains nothing (measured), and its first kernel has waited long enough. */
#define LAUNCH_BATCH_MAX 32

/* A checked launch. Its parameters lie in the ring's receiver, until its next fetch. */
struct queued_launch {
	CUfunction function;
	const struct kernel *kernel; /* for traces */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	const void *params;
	size_t params_size;
};

/* The launches to be sent; empty between two runs of messages. */
struct launch_batch {
	struct stream *stream;
	CUstream real;
	unsigned n;
	struct queued_launch launches[LAUNCH_BATCH_MAX];
};

/* Launches one kernel. */
CUresult launch_alone(const struct queued_launch *queued, CUstream real);

/* Adds a launch for a stream that stream_begin() has prepared. A full batch is launched. */
void launch_batch_add(struct session *session, struct stream *stream, CUstream real,
	const struct queued_launch *queued);

/* Launches the batch. Call this before any other work for the session. */
void launch_batch_flush(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room launch_batches_room;

#endif
