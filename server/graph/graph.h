/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_H
#define GRAPH_H

/*
 * Executable graphs of a session: the driver's form of what its client has sent node by
 * node. The graphs from which they are made stay in the client. The session's worker only.
 */

#include "server/driver/driver.h"
#include "server/stream/printf_capture.h"

struct array;
struct context_share;
struct event;
struct library;
struct memory_op;
struct session_device;
struct session;

struct graph_former;
struct graph_twins;

struct graph_span {
	uint64_t address, size;
};

struct graph_node {
	CUgraphNode real;
	CUgraphNodeType type;
	uint32_t attr_mask;          /* of a kernel node, whose attributes stay as they are */
	bool is_by_kernel;           /* a copy, whose real node is a kernel (copy_kernel.h) */
	struct graph_span spans[2];  /* what it copies or fills; size 0: nothing */
	struct array *arrays[2];     /* the arrays that it copies, references; NULL: none */
	struct library *library;     /* of its kernel, kept loaded; NULL: none */
	struct context_share *share; /* of its context, a reference; NULL: the client's */
	struct event *event;         /* a reference; NULL: none */
	struct memory_op *ops;       /* owned; NULL: none */
	uint32_t n_ops;
	uint64_t kept;               /* by the driver: charged to graph::ending */
	uint64_t fill_dst;           /* of a fill: where the driver knows the memory */
	uint32_t fill_value;         /* of a fill */
	uint32_t fill_unit;          /* of a fill of one row: bytes of an element; else 0 */
	uint32_t body;               /* of which it is a node; 0: of the graph itself */
	bool is_followed, is_joined; /* another node continues its branch; it continues one */
	bool is_disabled;            /* in the executable graph */
};

/* A graph within a conditional node. The driver ends it with the graph. */
struct graph_body {
	CUgraph real;
	uint32_t depth; /* 1: of a node of the graph itself */
};

struct graph {
	struct graph *next, *previous; /* session::graph_list */
	uint32_t id;
	struct session_device *sdev; /* not owned */
	CUgraph model;               /* its nodes identify those of `real' */
	CUgraphExec real;            /* NULL: not made yet */
	unsigned flags;              /* with which it was made */
	struct graph_end *ending;    /* owned */
	uint64_t kept;               /* by the driver, for nodes and edges: charged to `ending' */
	struct graph_node *nodes;
	uint32_t n_nodes, n_nodes_max; /* in `nodes'; for how many it has space */
	uint32_t n_joined;             /* nodes that continue a branch */
	struct graph_body *bodies;     /* owned; body 1 is the first */
	uint32_t n_bodies, body;       /* `body': of the next nodes */
	uint32_t n_conditions, n_body_nodes;
	struct context_share *share; /* of the conditions, a reference; NULL: the client's */
	CUresult result;             /* the first error since the client asked */
	uint32_t error_node;
	bool has_calls; /* host nodes */
	bool has_loops; /* conditional nodes of type WHILE */
	bool prints;    /* a kernel of it can print, or once could */
	struct print_history print_history;
	uint32_t n_waits;            /* for semaphores, in all its nodes and in `former' */
	struct graph_former *former; /* owned: see graph_wait.h */
	struct graph_twins *twins;   /* owned: see graph_twin.h; NULL: none so far */
	bool is_model_old;           /* `model' lacks a change of `real' */
	uint32_t next_wait;          /* where graph_next_wait() continues */
	uint64_t n_freed;            /* session::n_freed when all spans were last checked */
	CUstream last; /* stream::home of the last launch; NULL: none. Compared only */
	CUevent end;   /* of a graph destroyed while it runs: marks its end */
	bool is_closed;
};

#define GRAPH_NO_NODE UINT32_MAX

/* Drops what a node refers to. */
void graph_node_fini(struct graph_node *node, bool device_lost);

/* conditional.c: the driver's graph of a body. */
CUgraph graph_body(const struct graph *graph, uint32_t body);

/* The context of all conditions and nodes of bodies. The graph's context is current. */
CUresult graph_conditional_context(const struct graph *graph, CUcontext *ret_context);

/* Whether the driver executes such nodes in bodies. */
bool graph_body_may_have(CUgraphNodeType type);

/*
 * Graphs that were destroyed give back what they have when the driver destroys them, after
 * their last launch: waits a moment for that, and for all other deferred calls. False: there was
 * nothing to wait for.
 */
bool graphs_wait_for_ends(struct session *session);

/* Whether the session may still use all memory of the graph. */
bool graph_spans_ok(struct session *session, const struct graph *graph);

#endif
