/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_H
#define GRAPH_H

/*
 * Executable graphs of a session: what its client sent node by node, as the
 * driver has it. The client's graphs, of which these are made, stay there. The
 * session's worker only.
 */

#include "server/driver/driver.h"

struct array;
struct context_share;
struct event;
struct library;
struct memory_op;
struct session_device;
struct session;
struct session_room;

struct graph_span {
	uint64_t address, size;
};

struct graph_node {
	CUgraphNode real;
	CUgraphNodeType type;
	uint32_t attr_mask;          /* of a kernel node: its attributes stay as they are */
	bool is_by_kernel;           /* a copy, whose real node is a kernel (copy_kernel.h) */
	struct graph_span spans[2];  /* what it copies or fills; size 0: nothing */
	struct array *arrays[2];     /* that it copies, kept; NULL: none */
	struct library *library;     /* of its kernel, kept loaded; NULL: none */
	struct context_share *share; /* of the context that it is of, kept; NULL: the client's */
	struct event *event;         /* kept; NULL: none */
	struct memory_op *ops;       /* owned; NULL: none */
	uint32_t n_ops;
	uint64_t kept;               /* by the driver: graph::ending is charged with it */
	bool is_followed, is_joined; /* in a branch by another node, and with one */
};

struct graph {
	struct graph *next, *previous; /* session::graph_list */
	uint32_t id;
	struct session_device *sdev; /* not owned */
	CUgraph model;               /* its nodes name those of `real' */
	CUgraphExec real;            /* NULL: not made yet */
	struct graph_end *ending;    /* owned */
	struct graph_node *nodes;
	uint32_t n_nodes, n_free_channels;
	uint32_t n_joined; /* of the nodes: so many go on with a branch */
	CUresult result;   /* the first thing that went wrong since it was last asked for */
	uint32_t error_node;
	bool has_calls;     /* host nodes */
	bool prints;        /* a kernel of it may, or once might */
	uint32_t n_waits;   /* for semaphores, in all its nodes */
	uint32_t next_wait; /* where graph_next_wait() goes on */
	uint64_t n_freed;   /* session::n_freed when all spans were last looked at */
	CUstream last;      /* of the last launch; NULL: none. Compared, never followed */
	CUevent end;        /* of one that was destroyed as it ran: when it has ended */
	bool is_closed;
};

#define GRAPH_NO_NODE UINT32_MAX

/* Drops what a node keeps. */
void graph_node_fini(struct graph_node *node, bool device_lost);

/* Whether the session may still touch what the graph does. */
bool graph_spans_ok(struct session *session, const struct graph *graph);

/* What is done for each session: see session_room.h. */
extern const struct session_room graphs_room;

#endif
