/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_BATCH_H
#define LAUNCH_BATCH_H

/*
 * Launch batches. Plain launches for one stream that wait in the ring together go to the
 * driver as one graph: a chain of kernel nodes, instantiated once and changed for each run.
 * On an H200 that takes 1.3 us per kernel where a launch takes 3, and workers that launch at
 * the same time rarely meet at the context's lock.
 *
 * A launch that the client waits for goes to the driver as one graph with the seqno behind it:
 * one call instead of two. The worker holds such a launch for HELD_NS, which is longer than a
 * client takes from its launch to its wait. It expects a wait after WAITED_MIN launches in a row
 * of that stream were each followed by their seqno.
 *
 * The session's worker only.
 */

#include "chain.h"

struct session;
struct stream;

#define LAUNCH_BATCH_MAX CHAIN_MAX

#define HELD_NS 1000

/* A launch with more parameters is not held. */
#define HELD_PARAMS_MAX 1024

/*
 * The launches to be sent; between two runs of messages empty or a held launch. Their parameters
 * lie in the ring's receiver, until its next fetch, those of a held launch in `held'.
 */
struct launch_batch {
	struct stream *stream;
	unsigned n;
	struct queued_launch launches[LAUNCH_BATCH_MAX];
	struct stream *lone; /* of a launch that had no other before it in the batch; or NULL */
	uint64_t lone_at;    /* ... the number of its message */
	bool is_held;        /* the first launch was held */
	bool may_hold;       /* unless MPS_DISABLE=hold */
	bool keeps_stack;    /* a chain keeps the stack of a GPU large (cu_limit.h) */
	char held[HELD_PARAMS_MAX];
};

/* Adds a launch for a stream that stream_begin() has prepared. A full batch is launched. */
void launch_batch_add(
	struct session *session, struct stream *stream, const struct queued_launch *queued);

/*
 * Prepares to hold a launch that came alone, for the batch to be launched with its seqno. False:
 * the client is not expected to wait for it.
 */
bool launch_batch_hold(
	struct session *session, const struct stream *stream, struct queued_launch *queued);

static inline bool launch_batch_is_held(const struct launch_batch *batch)
{
	return batch->is_held && batch->n == 1;
}

/* Launches the batch. Call this before any other work for the session. */
void launch_batch_flush(struct session *session);

#endif
