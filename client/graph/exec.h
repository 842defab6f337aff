/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXEC_H
#define EXEC_H

/*
 * Executable graphs: a graph of their own, cloned at the making, and its nodes
 * in the server by number. Under the lock of all graphs.
 */

#include "graph_memory.h"
#include "graph_lowering.h"

/* A part of a node that this process does; the GPU asks for it by a number. */
struct exec_call {
	struct graph_node *node; /* not owned */
	uint32_t number;         /* of the server's node */
	uint32_t call;           /* of its words in the page and in ring_control */
	struct box_chunk chunk;
};

/* Host memory that the GPU reaches, for the copies of one node. */
struct exec_bounce {
	const struct graph_node *node; /* not owned */
	uint64_t allocated;            /* freed by this address */
	uint64_t address, size;        /* what is used of it */
};

/* Nodes of the program's graph, and what they are here. */
struct exec_name {
	uint64_t original;
	struct graph_node *node;
};

struct exec {
	struct slab_head slab;
	struct exec *next; /* of those that are closing */
	struct context *context;
	struct graph *image;
	cuuint64_t flags;
	struct exec_name *names; /* rising */
	size_t n_names;
	bool records;               /* events */
	uint64_t source;            /* struct graph::unique of what it is made from */
	struct graph_launch memory; /* what a launch allocates and frees */
	struct exec_call *calls;
	uint32_t n_calls, n_calls_room;
	struct exec_bounce *bounces;
	uint32_t n_bounces;
	uint32_t n_numbers;    /* of the server's nodes */
	struct stream *stream; /* of the last launch; NULL: none */
	uint64_t seqno;
	bool is_closing;
};

/* NULL: the handle names none. */
struct exec *exec_find(CUgraphExec handle);
uint32_t exec_id(const struct exec *exec);

/* What a node of the graph that it was made from is in it; NULL: nothing. */
struct graph_node *exec_node(const struct exec *exec, CUgraphNode handle);

/* Whether one is made from that graph; NULL is fine as the one that does not count. */
bool exec_is_of(uint64_t graph, const struct exec *but);

/* Gives back what is left of destroyed ones that have ended. Takes the lock. */
void execs_free_closed(void);

/* Ends those of a context that goes. */
void execs_end_context(const struct context *context);

/* exec_send.c: the image to the server; *ret_error is what of it is to blame, NULL: unknown. */
CUresult exec_send(struct exec *exec, const struct graph_node **ret_error);

/* Sends another op for a node, which has to be of the same shape. Takes it, on failure too. */
CUresult exec_send_change(struct exec *exec, struct graph_node *node, struct node_op *op);

/* What became of the changes; as exec_send(). */
CUresult exec_confirm(struct exec *exec, const struct graph_node **ret_error);

/* Of a node's server's nodes, whether one is a call. */
bool exec_is_call(const struct exec *exec, uint32_t number);

/* The bounce memory of a node, NULL: it has none. */
const struct exec_bounce *exec_bounce(const struct exec *exec, const struct graph_node *node);

/* Words of calls (exec_call.c); CUDA_ERROR_OUT_OF_MEMORY: all are taken. */
CUresult call_take(uint32_t *ret_call);
void call_give(uint32_t call);

/* Has all calls of one launch ready to be asked for, and undoes it. */
CUresult calls_expect(const struct exec *exec, uint64_t *ret_launch);
void calls_forget(uint64_t launch);

#endif
