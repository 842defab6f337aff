/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_TWIN_H
#define GRAPH_TWIN_H

/*
 * Twins of executable graphs: a twin is the same graph with the SMs of a share that a background
 * session changes to (elastic_shares.h).
 *
 * The driver's nodes keep to the SMs of the context in which they were made, and a node of an
 * executable graph cannot change its context. A node of a clone can. So a twin is made of a clone
 * of graph::model, whose kernels are set again in the share's context. A twin is made at the first
 * launch of the graph in a share, so a graph has none unless foreground sessions are at work.
 *
 * A graph has no twins if the driver cannot clone it (conditional nodes), if nodes do not fit into
 * the share (cooperative kernels), or if there is no memory for them. Then it is launched itself,
 * on all SMs of the session. Kernels of contexts with SMs of their own keep these.
 *
 * The session's worker only.
 */

#include "graph.h"

struct stream;

/*
 * The sizes that the controller of shares compares at one time: the present one, another one, and
 * the floor. To move to a fourth size replaces the twin that was launched least recently.
 */
#define GRAPH_TWINS_MAX 3u

/*
 * Nodes in all twins of a session. A node takes 10 KiB of host memory at most, a third of what a
 * client may have by default, and 2 KiB of the GPU's memory.
 */
#define GRAPH_TWIN_NODES_MAX (64u << 10)

struct graph_twin {
	unsigned share;           /* of elastic_shares */
	CUgraph model;            /* the clone: its nodes identify those of `exec' */
	CUgraphExec exec;         /* NULL: there is no twin */
	struct graph_end *ending; /* owned */
	uint64_t launched;        /* graph_twins::n_launches at its last launch; 0: none */
	CUevent end;              /* of its last launch; NULL: not known */
	bool is_old;              /* a change of the graph has failed: is not launched any more */
};

struct graph_twins {
	struct graph_twin list[GRAPH_TWINS_MAX];
	struct graph_twin *chosen; /* of the launch that is being made; NULL: none */
	struct graph_twin *last;   /* of the last launch; NULL: the graph itself */
	CUevent end;               /* of the last launch of the graph itself; NULL: not known */
	uint64_t n_launches;
	uint32_t unfit;    /* shares that cannot have one until the graph is changed, a bit each */
	uint64_t retry_ns; /* before that, memory is short */
};

/* Whether changes of the graph have to reach its model, of which twins may be made. */
bool graph_twins_may_be(const struct graph *graph);

/*
 * Before a launch of the graph in that stream: sleeps until the session may launch it, chooses a
 * twin, and changes the stream to the share. NULL: the graph itself.
 */
struct graph_twin *graph_twin_choose(
	struct session *session, struct stream *stream, struct graph *graph);

/*
 * The stream has begun: orders the launch behind the last one. The driver does that for launches
 * of one executable graph, in whatever streams. While a stream is blocked the two should be
 * launches of one, so the twin may be replaced.
 */
CUresult graph_twin_order(struct session *session, struct stream *stream, struct graph *graph,
	struct graph_twin **twin);

/* The launch has been made, or has failed. `twin': NULL is the graph itself. */
void graph_twin_launched(struct session *session, struct stream *stream, struct graph *graph,
	struct graph_twin *twin, CUresult result);

/* The driver will keep `more' bytes for the graph. A twin that cannot pay that is not used. */
void graph_twins_keep(struct session *session, struct graph *graph, uint64_t more);

/* The driver does not launch it. */
void graph_twin_refuse(struct graph *graph, struct graph_twin *twin);

/* Enables or disables the node in the twin. */
CUresult graph_twin_enable(const struct graph *graph, const struct graph_twin *twin,
	const struct graph_node *node, bool is_enabled);

/* Ends the twins of the session that do not run, because memory is short. Whether there were any.
 */
bool graph_twins_reclaim(struct session *session);

/* The graph ends, and does not run. */
void graph_twins_free(struct graph *graph, bool device_lost);

#endif
