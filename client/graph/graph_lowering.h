/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_LOWERING_H
#define GRAPH_LOWERING_H

/*
 * What a node of a graph is for the server: one of its nodes for most, a row of
 * them, one behind the other, for copies and fills that have to be divided or
 * to go by way of memory that the GPU reaches. Any thread.
 */

#include "graph.h"
#include "wire.h"

enum lowered_kind {
	LOWERED_EMPTY, /* nothing to be done */
	LOWERED_OP,    /* the node's own op, undivided */
	LOWERED_COPY,
	LOWERED_FILL,
	LOWERED_CALL, /* a function of the program's, or of ours */
};

/* Rows of a copy that are moved by the host: from `row' on, `width' bytes from `x' of each. */
struct box_chunk {
	uint64_t x, row, width, rows;
	uint64_t bounce; /* where they lie without gaps; 0: the other end is host memory too */
};

struct lowered_node {
	enum lowered_kind kind;
	union {
		struct box copy;
		struct fill fill;
		struct box_chunk chunk; /* of a copy's call */
	};
};

/* Zero-initialised is none. */
struct lowering {
	struct lowered_node *list; /* owned */
	uint32_t n, n_room;
};

/* Bytes of host memory of ours that the op wants; 0: none. */
uint64_t lowering_bounce_size(const struct node_op *op);

/* Divides the op; `bounce' has `bounce_size' bytes. */
CUresult lowering_make(const struct node_op *op, uint64_t bounce, uint64_t bounce_size,
	struct lowering *ret_lowering);

void lowering_fini(struct lowering *lowering);

/* Moves a chunk between the program's memory and the bounce memory, or the program's own. */
void box_chunk_move(const struct box *box, const struct box_chunk *chunk);

#endif
