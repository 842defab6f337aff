/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_LOWERING_H
#define GRAPH_LOWERING_H

/*
 * Lowering: which of the server's nodes execute a graph node. Most nodes need one.
 * Copies and fills that must be divided, or that go through memory that the GPU can
 * access, need several, one after the other. Any thread.
 */

#include "graph.h"
#include "wire.h"

enum lowered_kind {
	LOWERED_EMPTY, /* does nothing */
	LOWERED_OP,    /* the node's whole op */
	LOWERED_COPY,
	LOWERED_FILL,
	LOWERED_CALL, /* a function of the program or of this library */
};

/* Rows of a copy that the host copies: from `row' on, `width' bytes from `x' of each row. */
struct box_chunk {
	uint64_t x, row, width, rows;
	uint64_t bounce; /* where they lie without gaps; 0: the other end is host memory too */
};

struct lowered_node {
	enum lowered_kind kind;
	union {
		struct box copy;
		struct fill fill;
		struct box_chunk chunk; /* for LOWERED_CALL of a copy */
	};
};

/* A zero-initialised lowering is empty. */
struct lowering {
	struct lowered_node *list; /* owned */
	uint32_t n, n_max;
};

/* How many bytes of bounce memory the op needs; 0: none. */
uint64_t lowering_bounce_size(const struct node_op *op);

/* Divides the op; `bounce' has `bounce_size' bytes. */
CUresult lowering_make(const struct node_op *op, uint64_t bounce, uint64_t bounce_size,
	struct lowering *ret_lowering);

void lowering_fini(struct lowering *lowering);

/*
 * Copies a chunk between the program's memory and the bounce memory, or within the
 * program's memory.
 */
void box_chunk_move(const struct box *box, const struct box_chunk *chunk);

#endif
