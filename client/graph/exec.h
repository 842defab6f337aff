/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXEC_H
#define EXEC_H

/*
 * Executable graphs: each has its own copy of a graph, made when it is
 * instantiated; the server knows its nodes by number. exec.c and exec_send.c call each
 * other, because messages name an executable graph by exec_id(). Under the lock of all graphs.
 */

#include "graph_lowering.h"
#include "graph_memory.h"

/* A call: a step of a node that this process executes when the GPU asks for it by number. */
struct exec_call {
	struct graph_node *node; /* not owned */
	uint32_t number;         /* of the server's node */
	uint32_t call;           /* the index of its semaphores in the page and in ring_control */
	struct box_chunk chunk;
};

/* Pinned memory for the copies of one node. */
struct exec_bounce {
	const struct graph_node *node; /* not owned */
	uint64_t allocated;            /* the address with which it is freed */
	uint64_t address, size;        /* the part that is used */
};

/* Maps a node of the program's graph to the node of this copy. */
struct exec_name {
	uint64_t original;
	struct graph_node *node;
};

struct exec {
	struct slab_head slab;
	struct exec *next; /* in the list of closing ones */
	struct context *context;
	struct graph *image;
	cuuint64_t flags;
	struct exec_name *names; /* sorted */
	size_t n_names;
	bool records;               /* whether it records events */
	bool awaits_host;           /* whether it has host functions or semaphores */
	bool prints;                /* whether a kernel of it can print, or once could */
	uint64_t source;            /* struct graph::unique of the graph that it was made from */
	struct graph_launch memory; /* the memory that a launch allocates and frees */
	struct exec_call *calls;
	uint32_t n_calls, n_calls_max;
	struct exec_bounce *bounces;
	uint32_t n_bounces;
	uint32_t n_numbers;    /* number of the server's nodes */
	uint32_t n_bodies;     /* of conditional nodes */
	struct stream *stream; /* of the last launch; NULL: none */
	uint64_t seqno;
	bool is_remade; /* since the last launch */
	bool is_closing;
};

/* NULL: no such executable graph. */
struct exec *exec_find(CUgraphExec handle);
uint32_t exec_id(const struct exec *exec);

/* The copy of a node of the graph that it was made from; NULL: none. */
struct graph_node *exec_node(const struct exec *exec, CUgraphNode handle);

/* Whether an executable graph other than `but' is made from that graph. `but' may be NULL. */
bool exec_is_of(uint64_t graph, const struct exec *but);

/*
 * Makes it anew, from a graph that matches it: what the driver cannot change. The handles
 * stay. On failure nothing has changed; as exec_send().
 */
CUresult exec_remake(
	struct exec *exec, const struct graph *graph, const struct graph_node **ret_error);

/*
 * Frees destroyed executable graphs whose launches have ended. Takes the lock. The second
 * does not wait for the lock, and returns whether there may be more.
 */
void execs_free_closed(void);
bool execs_free_ended(void);

/* Ends one, and frees it when its launches have ended. */
void exec_end(struct exec *exec);

/* Ends the executable graphs of a context that ends. */
void execs_end_context(const struct context *context);

/* exec_send.c: sends the image to the server. *ret_error is the node that failed; NULL: unknown. */
CUresult exec_send(struct exec *exec, const struct graph_node **ret_error);

/*
 * Sends another op for a node; the op must have the same shape. Takes ownership of
 * it, on failure too.
 */
CUresult exec_send_change(struct exec *exec, struct graph_node *node, struct node_op *op);

/* Asks for the result of the changes; as exec_send(). */
CUresult exec_confirm(struct exec *exec, const struct graph_node **ret_error);

/* Whether launches execute the node; one of its image. */
CUresult exec_enable(const struct exec *exec, struct graph_node *node, bool is_enabled);

/* Whether the server's node of that number is a call. */
bool exec_is_call(const struct exec *exec, uint32_t number);

/* The bounce memory of a node; NULL: none. */
const struct exec_bounce *exec_bounce(const struct exec *exec, const struct graph_node *node);

/* Semaphores of calls (exec_call.c). CUDA_ERROR_OUT_OF_MEMORY: all are in use. */
CUresult call_take(uint32_t *ret_call);
void call_give(uint32_t call);

/* Queues all calls of one launch; calls_forget() undoes it. */
CUresult calls_expect(const struct exec *exec, uint64_t *ret_launch);
void calls_forget(uint64_t launch);

#endif
