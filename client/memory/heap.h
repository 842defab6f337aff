/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEAP_H
#define HEAP_H

/*
 * Blocks of addresses cut into pieces. A piece that was freed in the order of a
 * stream is remembered with it: until the GPU has come so far, only that stream
 * may have it again. No locks and no messages of its own; its user has both.
 */

#include "base.h"

struct stream;

#define HEAP_ALIGN 512u
/* Free pieces by size: four bins for each power of two. */
#define HEAP_BINS 192u

struct node {
	struct node *next, *prev;
};

struct block {
	struct node node; /* of heap::blocks */
	uint64_t address, size;
	struct piece *first;
};

struct piece {
	struct node node;          /* of its bin, while free */
	struct node pending;       /* of heap::pending, while its stream is not NULL */
	struct piece *next, *prev; /* in the block, by address */
	struct block *block;
	uint64_t address, size;
	bool is_used;
	struct stream *stream; /* of a free one: whose work may be using it; NULL: nobody's */
	uint64_t seqno;        /* it is done when the stream has come here */
};

struct heap {
	struct node bins[HEAP_BINS];
	uint64_t filled[HEAP_BINS / 64]; /* a bit a bin */
	struct node blocks, pending;
	uint64_t size;    /* of all blocks */
	uint64_t n_empty; /* blocks that are one free piece, without a stream */
	uint64_t empty_bytes;
};

void heap_init(struct heap *heap);

/* 0 or -ENOMEM. */
int heap_add(struct heap *heap, uint64_t address, uint64_t size);

/*
 * A piece of at least `size' bytes (a multiple of HEAP_ALIGN, not 0) that work
 * of `stream' to come may use; NULL as a stream: any work. NULL: there is none.
 */
struct piece *heap_take(struct heap *heap, uint64_t size, struct stream *stream);

/* The same of exactly [address, address + size): only what is free, and no stream's. */
struct piece *heap_take_at(struct heap *heap, uint64_t address, uint64_t size);

/* The same at a multiple of `align', a power of two. */
struct piece *heap_take_aligned(struct heap *heap, uint64_t size, uint64_t align);

/* The piece is free when `stream' has come to `seqno'; NULL: now. */
void heap_give(struct heap *heap, struct piece *piece, struct stream *stream, uint64_t seqno);

/* Looks which streams have come so far, and puts together what has become one. */
void heap_reclaim(struct heap *heap);

/* Takes out a block of which nothing is used, the largest of at most `size_max' bytes. */
bool heap_release(struct heap *heap, uint64_t size_max, uint64_t *ret_address, uint64_t *ret_size);

/* The next stream that free pieces wait for, after `after' (NULL: the first); NULL: no more. */
struct piece *heap_next_pending(struct heap *heap, const struct piece *after);

#endif
