/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEAP_H
#define HEAP_H

/*
 * Blocks of addresses, divided into pieces. A piece that was freed in the order of
 * a stream remembers that stream: until the GPU has reached the free, only that
 * stream may reuse the piece. A heap has no lock and sends no messages; its user
 * does both.
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
	struct node node; /* in heap::blocks */
	uint64_t address, size;
	struct piece *first;
};

struct piece {
	struct node node;          /* in its bin, while free */
	struct node pending;       /* in heap::pending, while its stream is not NULL */
	struct piece *next, *prev; /* in the block, in the order of addresses */
	struct block *block;
	uint64_t address, size;
	bool is_used;
	uint64_t counted;      /* bytes that the user of the heap counts as used */
	struct stream *stream; /* if free: whose work may still use it; NULL: none */
	uint64_t seqno;        /* its work is done when the stream has reached this */
};

struct heap {
	struct node bins[HEAP_BINS];
	uint64_t filled[HEAP_BINS / 64]; /* one bit per bin */
	struct node blocks, pending;
	uint64_t size;    /* of all blocks */
	uint64_t n_empty; /* blocks that are one free piece and wait for no stream */
	uint64_t empty_bytes;
};

void heap_init(struct heap *heap);

/* 0 or -ENOMEM. */
int heap_add(struct heap *heap, uint64_t address, uint64_t size);

/*
 * Takes a piece of at least `size' bytes (a multiple of HEAP_ALIGN, not 0) for
 * later work of `stream'; NULL as a stream: for any work. Returns NULL if there is
 * none.
 */
struct piece *heap_take(struct heap *heap, uint64_t size, struct stream *stream);

/*
 * Takes a piece that work of `*ret_stream' may still use, until that stream has reached
 * `*ret_seqno'. heap_give() with both undoes it.
 */
struct piece *heap_take_pending(
	struct heap *heap, uint64_t size, struct stream **ret_stream, uint64_t *ret_seqno);

/* Takes exactly [address, address + size), if it is free and waits for no stream. */
struct piece *heap_take_at(struct heap *heap, uint64_t address, uint64_t size);

/* Takes a piece at a multiple of `align', a power of two. */
struct piece *heap_take_aligned(struct heap *heap, uint64_t size, uint64_t align);

/* Frees the piece once `stream' has reached `seqno'; a NULL stream: now. */
void heap_give(struct heap *heap, struct piece *piece, struct stream *stream, uint64_t seqno);

/* Checks which streams have reached their seqnos, and merges the pieces that became free. */
void heap_reclaim(struct heap *heap);

/* Removes the largest unused block of at most `size_max' bytes. */
bool heap_release(struct heap *heap, uint64_t size_max, uint64_t *ret_address, uint64_t *ret_size);

/* The next free piece that waits for a stream, after `after' (NULL: the first); NULL: no more. */
struct piece *heap_next_pending(struct heap *heap, const struct piece *after);

#endif
