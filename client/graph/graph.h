/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_H
#define GRAPH_H

/*
 * Graphs belong to the client alone: nodes with their ops and edges. The server
 * gets a graph when it is instantiated. Handles are addresses of objects in slabs.
 * One lock protects graphs, captures and executable graphs; callers of graph_ and
 * node_ functions hold it.
 */

#include <pthread.h>

#include "node_op.h"
#include "client/util/slab.h"

struct user_object;

struct edge {
	struct graph_node *node; /* not owned: in the same graph */
	CUgraphEdgeData data;
};

struct graph_node {
	struct slab_head slab;
	struct graph *graph; /* not owned */
	struct graph_node *next, *previous;
	uint64_t unique;           /* unique; rises in the order of creation */
	uint64_t walked;           /* number of the last walk that visited it */
	uint64_t original;         /* of the node from which it was cloned; 0: none */
	struct edge *before;       /* the edges to nodes before it; owned, like the next */
	struct graph_node **after; /* the nodes that wait for it */
	uint32_t n_before, n_after;
	struct node_op op;
	bool is_captured; /* made by a capture, which must join it */
	/* For the copy of an executable graph. */
	uint32_t first, last; /* numbers of the server's first and last node of it */
	bool is_disabled;
};

/* A graph's references to an object of the program (user_object.c). */
struct user_reference {
	struct user_object *object;
	unsigned count;
};

/* A number that kernels of the graph set and a conditional node reads (conditional.h). */
struct condition {
	const struct context *context;
	uint32_t default_value;
	bool is_assigned; /* each launch assigns the default value first */
};

struct graph {
	struct slab_head slab;
	uint64_t unique;           /* unique among graphs and nodes */
	struct graph_node *parent; /* the node whose child it is; NULL: none */
	bool is_private;           /* of an executable graph: the program has no handle */
	bool is_moved;             /* a child that was moved, not copied */
	bool has_memory;           /* it or a child of it has nodes that allocate or free */
	struct graph_node *first, *last;
	size_t n_nodes;
	struct user_reference *references; /* owned */
	size_t n_references;
	struct condition *conditions; /* of an outermost graph; owned */
	uint32_t n_conditions;
	uint32_t body; /* the server's number of it, for the copy of an executable graph */
};

void graphs_lock(void);
bool graphs_trylock(void); /* false: another thread holds it */
void graphs_unlock(const bool *locked);

/* Holds the lock until the end of the block. */
#define GRAPHS_LOCKED                                                                              \
	_cleanup_(graphs_unlock) _unused_ const bool graphs_locked_ = (graphs_lock(), true)

/* NULL: no such graph of the program. */
struct graph *graph_find(CUgraph handle);
struct graph_node *node_find(CUgraphNode handle);

CUresult graph_new(struct graph **ret_graph);
void graph_free(struct graph *graph); /* accepts NULL */

/* Makes a graph without a parent the child of a node, and frees the node's earlier child. */
void graph_move(struct graph *graph, struct graph_node *to);

/* Copies nodes, edges and children; each copy remembers its original. */
CUresult graph_clone(const struct graph *graph, struct graph **ret_clone);

/* The clone of a node in a graph; NULL: none. */
struct graph_node *graph_find_clone(const struct graph *graph, uint64_t original);

/* The graphs within a node: its child graph, or the bodies of a conditional node. */
uint32_t node_inner_graphs(const struct graph_node *node, struct graph *const **ret_graphs);

/* The next of all nodes in a graph; nodes of inner graphs follow their node. NULL: no more. */
struct graph_node *graph_next(const struct graph *graph, struct graph_node *node);

/* Whether the program can have no handles of the graph, its children, and their nodes. */
void graph_set_private(struct graph *graph, bool is_private);

/* Takes ownership of `op', on failure too. */
CUresult node_new(struct graph *graph, struct node_op *op, struct graph_node **ret_node);
void node_free(struct graph_node *node);

/* Replaces the op by another of the same type. Takes ownership of `op', on failure too. */
CUresult node_set(struct graph_node *node, struct node_op *op);

/*
 * Whether the program may make such an edge. Only kernels have ports other than 0, and programmatic
 * edges to other kernels. Captures make programmatic edges to nodes of any type, too.
 */
bool edge_data_ok(
	const struct graph_node *from, CUgraphNodeType to_type, const CUgraphEdgeData *data);

/* CUDA_ERROR_INVALID_VALUE: the nodes are in two graphs or are the same, or have an edge. */
CUresult node_depend(struct graph_node *node, struct graph_node *on, const CUgraphEdgeData *data);

/* false: there is no such edge. `data' NULL: of any data. */
bool node_undepend(
	struct graph_node *node, const struct graph_node *on, const CUgraphEdgeData *data);

/* node_add.c: adds a node with its edges. Takes ownership of `op', on failure too. */
CUresult node_add(struct graph *graph, struct node_op *op, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, struct graph_node **ret_node);

/*
 * user_object.c: releases the graph's references; `is_worked': the graph was launched.
 * graphs_unlock() calls the end functions of objects that have ended.
 */
void graph_release_references(struct graph *graph, bool is_worked);
void user_objects_call_ends(void);
CUresult graph_copy_references(const struct graph *from, struct graph *to);

/* The graph takes or gives up references to an object; it may take over the program's own. */
CUresult graph_retain_object(
	struct graph *graph, CUuserObject handle, unsigned count, bool moves_reference);
CUresult graph_release_object(struct graph *graph, CUuserObject handle, unsigned count);

#endif
