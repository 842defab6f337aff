/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_H
#define GRAPH_H

/*
 * Graphs are the client's own: nodes with what they do, and what they wait for.
 * The server hears of one when it is made executable. Handles are addresses of
 * slabs' objects. All of it, captures and executable graphs too, is under one
 * lock; what begins with graph_ or node_ wants it held.
 */

#include <pthread.h>

#include "client/util/slab.h"
#include "node_op.h"

struct user_object;

struct edge {
	struct graph_node *node; /* not owned: of the same graph */
	CUgraphEdgeData data;
};

struct graph_node {
	struct slab_head slab;
	struct graph *graph; /* not owned */
	struct graph_node *next, *previous;
	uint64_t unique;           /* never given twice; rises with the order of making */
	uint64_t walked;           /* number of the last walk that came by */
	uint64_t original;         /* of the node that it is a clone of; 0: of none */
	struct edge *before;       /* what it waits for; owned, as the next */
	struct graph_node **after; /* what waits for it */
	uint32_t n_before, n_after;
	struct node_op op;
	bool is_captured; /* made by a stream, which is to be joined */
	/* Of an executable graph's own copy. */
	uint32_t first, last; /* numbers of the server's nodes that begin and end it */
	bool is_disabled;
};

/* References of a graph to an object of the program's (user_object.c). */
struct user_reference {
	struct user_object *object;
	unsigned count;
};

struct graph {
	struct slab_head slab;
	uint64_t unique;           /* never given twice, to a node neither */
	struct graph_node *parent; /* whose child it is; NULL: nobody's */
	bool is_private;           /* of an executable graph: no handle for the program */
	bool is_moved;             /* a child that was not copied */
	bool has_memory;           /* nodes that allocate or free, it or a child of it */
	struct graph_node *first, *last;
	size_t n_nodes;
	struct user_reference *references; /* owned */
	size_t n_references;
};

void graphs_lock(void);
void graphs_unlock(const bool *locked);

/* Holds the lock until the end of the block. */
#define GRAPHS_LOCKED                                                                              \
	_cleanup_(graphs_unlock) _unused_ const bool graphs_locked_ = (graphs_lock(), true)

/* NULL: the handle names none of the program's. */
struct graph *graph_find(CUgraph handle);
struct graph_node *node_find(CUgraphNode handle);

CUresult graph_new(struct graph **ret_graph);
void graph_free(struct graph *graph); /* NULL is fine */

/* Makes a graph of nobody's the child of a node that has another, which goes. */
void graph_move(struct graph *graph, struct graph_node *to);

/* Copies nodes, edges and children; each clone knows its original. */
CUresult graph_clone(const struct graph *graph, struct graph **ret_clone);

/* The clone of that node in a graph; NULL: none. */
struct graph_node *graph_find_clone(const struct graph *graph, uint64_t original);

/* All nodes of a graph in turn, those of a child right behind its node; NULL: that was the last. */
struct graph_node *graph_next(const struct graph *graph, struct graph_node *node);

/* Whether the program can have handles of it, its children, and their nodes. */
void graph_set_private(struct graph *graph, bool is_private);

/* A node with its edges. Takes `op', on failure too. */
CUresult node_add(struct graph *graph, struct node_op *op, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t n, struct graph_node **ret_node);

/* Takes `op', on failure too. */
CUresult node_new(struct graph *graph, struct node_op *op, struct graph_node **ret_node);
void node_free(struct graph_node *node);

/* Puts another op of its type in. Takes `op', on failure too. */
CUresult node_set(struct graph_node *node, struct node_op *op);

/* CUDA_ERROR_INVALID_VALUE: of two graphs, a node itself, or there is one already. */
CUresult node_depend(struct graph_node *node, struct graph_node *on, const CUgraphEdgeData *data);

/* false: there is no such edge. */
bool node_undepend(
	struct graph_node *node, const struct graph_node *on, const CUgraphEdgeData *data);

/* For user_object.c: gives up what a graph holds. */
void graph_release_references(struct graph *graph);
CUresult graph_copy_references(const struct graph *from, struct graph *to);

#endif
