/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHAIN_H
#define CHAIN_H

/*
 * Chain graphs: kernel nodes one behind another, and perhaps a seqno that the GPU writes behind
 * them; instantiated once and changed for each run.
 *
 * The session's worker only.
 */

#include <stdbool.h>

#include "server/driver/driver.h"

struct graph_end;
struct kernel;
struct session;
struct session_device;
struct stream;

/* Beyond 32 a chain gains nothing (measured), and its first kernel has waited long enough. */
#define CHAIN_MAX 32

/* A checked launch. Its parameters are not owned. */
struct queued_launch {
	CUfunction function;
	const struct kernel *kernel; /* for traces */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	const void *params;
	size_t params_size;
};

/*
 * A chain that can be launched; `graph' names its nodes. They keep to the SMs that the stream had
 * at the first run: see elastic_stream_context().
 */
struct chain {
	CUgraph graph;
	CUgraphExec exec; /* NULL: not made yet */
	struct graph_end *ending;
	CUgraphNode nodes[CHAIN_MAX];
	CUgraphNode seqno_node;
	bool keeps_stack;  /* of its GPU (cu_limit.h) */
	int n_wanted;      /* runs that found no graph */
	size_t params_max; /* of a node, as charged */
};

struct seqno_write {
	CUdeviceptr word;
	uint64_t value;
};

/* Launches one kernel, without a graph. */
CUresult launch_alone(const struct queued_launch *queued, CUstream real);

/* The same as work of the session, on the SMs that the stream has now, or else on all of its own.
 */
CUresult launch_in(
	struct session *session, struct stream *stream, const struct queued_launch *queued);

/*
 * Launches `n' kernels; then the GPU writes the seqno. A chain always gets the same `n', and
 * always a seqno or always NULL, while the stream has the same SMs. CUDA_ERROR_NOT_READY: there is
 * no graph yet. After any error nothing was launched.
 */
CUresult chain_run(struct session *session, struct chain *chain, const struct stream *stream,
	const struct queued_launch *launches, unsigned n, const struct seqno_write *seqno);

/* Ends the graph, if there is one. */
void chain_fini(struct chain *chain, const struct session_device *sdev, bool device_lost);

#endif
