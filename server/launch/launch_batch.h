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

#include "chain.h"

struct session;
struct session_room;
struct stream;
struct chain_cache;

#define LAUNCH_BATCH_MAX CHAIN_MAX

/*
 * The launches to be sent; empty between two runs of messages. Their parameters lie in the
 * ring's receiver, until its next fetch.
 */
struct launch_batch {
	struct stream *stream;
	CUstream real;
	unsigned n;
	struct queued_launch launches[LAUNCH_BATCH_MAX];
};

/* Adds a launch for a stream that stream_begin() has prepared. A full batch is launched. */
void launch_batch_add(struct session *session, struct stream *stream, CUstream real,
	const struct queued_launch *queued);

/* Launches the batch. Call this before any other work for the session. */
void launch_batch_flush(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room launch_batches_room;

#endif
