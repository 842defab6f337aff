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

enum part_kind {
	PART_EMPTY, /* nothing to be done */
	PART_TASK,  /* the node's own task, undivided */
	PART_COPY,
	PART_FILL,
	PART_CALL, /* a function of the program's, or of ours */
};

/* Rows of a copy that are moved by the host: from `row' on, `width' bytes from `x' of each. */
struct chunk {
	uint64_t x, row, width, rows;
	uint64_t bounce; /* where they lie without gaps; 0: the other end is host memory too */
};

struct part {
	enum part_kind kind;
	union {
		struct box copy;
		struct fill fill;
		struct chunk chunk; /* of a copy's call */
	};
};

/* Zero-initialised is none. */
struct parts {
	struct part *list; /* owned */
	uint32_t n, n_room;
};

/* Bytes of host memory of ours that the task wants; 0: none. */
uint64_t parts_bounce_size(const struct task *task);

/* Divides the task; `bounce' has `bounce_size' bytes. */
CUresult parts_make(
	const struct task *task, uint64_t bounce, uint64_t bounce_size, struct parts *ret_parts);

void parts_fini(struct parts *parts);

/* Moves a chunk between the program's memory and the bounce memory, or the program's own. */
void chunk_move(const struct box *box, const struct chunk *chunk);

#endif
