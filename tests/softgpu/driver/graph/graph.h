/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_H
#define GRAPH_H

/*
 * Graphs: nodes, each with a piece of work that a launch copies into a stream, and
 * with the nodes that must come before it.
 *
 * All under the driver's lock. A launch does the nodes one after the other, in
 * an order that the dependencies allow.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/driver/stream/work.h"

struct exec;
struct graph;
struct user_object;

/* A graph's references to an object of the program (graph_extra.c). */
struct user_ref {
	struct user_ref *next;
	struct user_object *object;
	uint64_t count;
};

struct node {
	struct object object;
	struct node *next;   /* graph::nodes, in the order of creation */
	struct graph *graph; /* not owned */
	CUgraphNodeType type;
	struct work work;
	struct graph *child;   /* of a child graph node; owns a reference */
	struct graph **bodies; /* of a conditional node; owns a reference to each */
	size_t n_bodies;
	struct node **dependencies;
	CUgraphEdgeData *edge_data; /* of the edge from each of them */
	size_t n_dependencies;
	const struct node *original; /* the node that it is a clone of; only compared */
	void **param_pointers;       /* of a kernel node: for cuGraphKernelNodeGetParams() */
	uint64_t mark;               /* the last sort that visited it */
	bool is_followed; /* its branch continues in another node, as of the last instantiation */
	bool is_captured; /* by a stream */
};

/* A handle of a condition; its number is its place, from 1 on. */
struct condition {
	CUcontext context;       /* only compared */
	const struct node *node; /* the conditional node that uses it, or NULL; not owned */
	uint32_t value;          /* at the beginning of each launch, if `is_assigned' */
	bool is_assigned;
};

struct graph {
	struct object object;
	uint64_t id;
	struct graph *pending;  /* only while being freed or cloned: the next one */
	struct graph *original; /* only while being cloned */
	uint32_t refs;
	bool is_child; /* belongs to a node: the program does not destroy it */
	bool is_moved; /* ... and is not a copy: nothing else uses it */
	struct node *nodes;
	struct node **tail;
	size_t n_nodes;
	struct node *owner;           /* of a body: its conditional node; not owned */
	struct condition *conditions; /* of an outermost graph, for its bodies too */
	uint32_t n_conditions;
	const struct exec *exec; /* the one that was made of its conditional nodes; only compared */
	struct user_ref *user_refs;
};

/* graph.c */
struct graph *graph_new(void);
void graph_unref(struct graph *graph);

/* Adds a node behind `dependencies'. Takes `work', on failure too. */
CUresult node_new(struct graph *graph, struct node *const *dependencies, size_t n,
	CUgraphNodeType type, struct work *work, struct node **ret_node);
/* `data' NULL: plain edges. */
CUresult node_depend(
	struct node *node, struct node *const *on, const CUgraphEdgeData *data, size_t n);
/*
 * Only kernels have ports other than 0, and programmatic edges to other kernels. Captures make
 * such edges to nodes of any type. `to' NULL: it is not known yet.
 */
bool edge_data_ok(const struct node *from, const struct node *to, const CUgraphEdgeData *data);
/* Removes the node from its graph, whose nodes no longer depend on it. */
void node_destroy(struct node *node);
CUgraphNodeType node_type_of(const struct work *work);

/* The node of a child graph, for cuGraphAddNode(). */
CUresult graph_add_child(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
	size_t n, const CUDA_CHILD_GRAPH_NODE_PARAMS *params);

/* Sorts a graph's nodes by dependency into `out'; false if there is a circle. */
bool graph_order(struct graph *graph, struct node **out);

/* All nodes, child graphs expanded, in the order of dependency. The caller frees the array. */
CUresult graph_sort(struct graph *graph, struct node ***ret_nodes, size_t *ret_n);

/* graph_clone.c: a copy with the graphs of its child nodes. */
CUresult graph_clone(struct graph *original, struct graph **ret_clone);

/* graph_extra.c */
void kernel_copy_attributes(struct kernel_work *to, const struct kernel_work *from);
void user_refs_drop(struct user_ref **refs, bool is_worked);
CUresult user_refs_copy(const struct user_ref *from, struct user_ref **to);

/* graph_exec.c: replaces a node's work in an executable graph by work of the same type. Takes
 * `work'. */
CUresult exec_set(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, struct work *work);

#endif
