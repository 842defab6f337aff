/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The blocks of a heap and their pieces. Called under the lock of its user.
 *
 * Invariant: the pieces of a block follow each other without gaps. Two free
 * neighbours wait for different streams, or only one of them waits.
 */

#include "heap.h"

#include "client/stream/timeline.h"

static void node_init(struct node *head)
{
	head->next = head->prev = head;
}

static void node_add(struct node *head, struct node *node)
{
	node->next = head->next;
	node->prev = head;
	head->next->prev = node;
	head->next = node;
}

static void node_remove(struct node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
}

void heap_init(struct heap *heap)
{
	*heap = (struct heap){0};
	for (unsigned i = 0; i < HEAP_BINS; i++)
		node_init(&heap->bins[i]);
	node_init(&heap->blocks);
	node_init(&heap->pending);
}

/* Sizes in one bin differ by less than a quarter. */
static unsigned bin_of(uint64_t size)
{
	uint64_t n = size / HEAP_ALIGN;
	unsigned log2 = 63u - (unsigned)__builtin_clzll(n);
	unsigned quarter = (unsigned)(log2 >= 2 ? n >> (log2 - 2) : n << (2 - log2)) & 3;

	return MIN(4 * log2 + quarter, HEAP_BINS - 1);
}

static bool is_empty_block(const struct piece *piece)
{
	return !piece->stream && piece->size == piece->block->size;
}

static void put_free(struct heap *heap, struct piece *piece)
{
	unsigned bin = bin_of(piece->size);

	piece->is_used = false;
	node_add(&heap->bins[bin], &piece->node);
	heap->filled[bin / 64] |= 1ull << bin % 64;
	if (piece->stream)
		node_add(&heap->pending, &piece->pending);
	if (is_empty_block(piece)) {
		heap->n_empty++;
		heap->empty_bytes += piece->size;
	}
}

static void take_free(struct heap *heap, struct piece *piece)
{
	unsigned bin = bin_of(piece->size);

	node_remove(&piece->node);
	if (heap->bins[bin].next == &heap->bins[bin])
		heap->filled[bin / 64] &= ~(1ull << bin % 64);
	if (piece->stream)
		node_remove(&piece->pending);
	if (is_empty_block(piece)) {
		heap->n_empty--;
		heap->empty_bytes -= piece->size;
	}
}

int heap_add(struct heap *heap, uint64_t address, uint64_t size)
{
	struct block *block = calloc(1, sizeof(*block));
	struct piece *piece = calloc(1, sizeof(*piece));

	if (!block || !piece) {
		free(block);
		free(piece);
		return -ENOMEM;
	}
	*block = (struct block){.address = address, .size = size, .first = piece};
	*piece = (struct piece){.block = block, .address = address, .size = size};
	node_add(&heap->blocks, &block->node);
	heap->size += size;
	put_free(heap, piece);
	return 0;
}

/* Splits a piece that is in no bin at `size'. False: out of memory, and the piece is unchanged. */
static bool piece_split(struct piece *piece, uint64_t size, struct piece **ret_rest)
{
	struct piece *rest = malloc(sizeof(*rest));

	if (!rest)
		return false;
	*rest = *piece;
	rest->address += size;
	rest->size -= size;
	rest->prev = piece;
	if (rest->next)
		rest->next->prev = rest;
	piece->next = rest;
	piece->size = size;
	*ret_rest = rest;
	return true;
}

/* If memory for another piece cannot be allocated, the piece stays larger than necessary. */
static struct piece *piece_use(struct heap *heap, struct piece *piece, uint64_t size)
{
	struct piece *rest;

	take_free(heap, piece);
	if (piece->size > size && piece_split(piece, size, &rest))
		put_free(heap, rest);
	piece->is_used = true;
	piece->stream = NULL;
	return piece;
}

static bool is_for(const struct piece *piece, const struct stream *stream)
{
	return !piece->stream || piece->stream == stream ||
	       timeline_reached(piece->stream, piece->seqno);
}

/* The first non-empty bin at or after `bin'. */
static unsigned next_filled(const struct heap *heap, unsigned bin)
{
	uint64_t word;

	for (unsigned i = bin / 64; i < HEAP_BINS / 64; i++) {
		word = heap->filled[i];
		if (i == bin / 64)
			word &= UINT64_MAX << bin % 64;
		if (word)
			return 64 * i + (unsigned)__builtin_ctzll(word);
	}
	return HEAP_BINS;
}

struct piece *heap_take(struct heap *heap, uint64_t size, struct stream *stream)
{
	for (unsigned bin = next_filled(heap, bin_of(size)); bin < HEAP_BINS;
		bin = next_filled(heap, bin + 1))
		for (struct node *at = heap->bins[bin].next; at != &heap->bins[bin];
			at = at->next) {
			struct piece *piece = container_of(at, struct piece, node);

			if (piece->size >= size && is_for(piece, stream))
				return piece_use(heap, piece, size);
		}
	return NULL;
}

struct piece *heap_take_pending(
	struct heap *heap, uint64_t size, struct stream **ret_stream, uint64_t *ret_seqno)
{
	struct piece *found = NULL;

	for (struct node *at = heap->pending.next; at != &heap->pending; at = at->next) {
		struct piece *piece = container_of(at, struct piece, pending);

		if (piece->size >= size && (!found || piece->size < found->size))
			found = piece;
	}
	if (!found)
		return NULL;
	*ret_stream = found->stream;
	*ret_seqno = found->seqno;
	return piece_use(heap, found, size);
}

/* The bytes before `address' stay free. NULL: out of memory. */
static struct piece *use_from(
	struct heap *heap, struct piece *piece, uint64_t address, uint64_t size)
{
	struct piece *rest;

	if (piece->address == address)
		return piece_use(heap, piece, size);
	take_free(heap, piece);
	if (!piece_split(piece, address - piece->address, &rest)) {
		put_free(heap, piece);
		return NULL;
	}
	put_free(heap, piece);
	put_free(heap, rest);
	return piece_use(heap, rest, size);
}

struct piece *heap_take_at(struct heap *heap, uint64_t address, uint64_t size)
{
	for (struct node *at = heap->blocks.next; at != &heap->blocks; at = at->next) {
		const struct block *block = container_of(at, struct block, node);
		struct piece *piece = block->first;

		if (!range_ok(address - block->address, size, block->size))
			continue;
		while (address - piece->address >= piece->size)
			piece = piece->next;
		if (piece->is_used || piece->stream ||
			!range_ok(address - piece->address, size, piece->size))
			return NULL;
		return use_from(heap, piece, address, size);
	}
	return NULL;
}

struct piece *heap_take_aligned(struct heap *heap, uint64_t size, uint64_t align)
{
	for (unsigned bin = next_filled(heap, bin_of(size)); bin < HEAP_BINS;
		bin = next_filled(heap, bin + 1))
		for (struct node *at = heap->bins[bin].next; at != &heap->bins[bin];
			at = at->next) {
			struct piece *piece = container_of(at, struct piece, node);
			uint64_t address = ALIGN_UP(piece->address, align);

			if (is_for(piece, NULL) &&
				range_ok(address - piece->address, size, piece->size))
				return use_from(heap, piece, address, size);
		}
	return NULL;
}

/* Merges `piece', which is in no bin, with the free piece after it. */
static void absorb_next(struct heap *heap, struct piece *piece)
{
	struct piece *next = piece->next;

	take_free(heap, next);
	piece->size += next->size;
	piece->seqno = MAX(piece->seqno, next->seqno);
	piece->next = next->next;
	if (next->next)
		next->next->prev = piece;
	free(next);
}

/* Frees a piece that is in no bin, and merges it with neighbours that wait for the same stream. */
static void piece_join(struct heap *heap, struct piece *piece)
{
	struct piece *before = piece->prev;

	if (piece->next && !piece->next->is_used && piece->next->stream == piece->stream)
		absorb_next(heap, piece);
	if (before && !before->is_used && before->stream == piece->stream) {
		/* `before' absorbs a piece that is in a bin. */
		put_free(heap, piece);
		take_free(heap, before);
		absorb_next(heap, before);
		piece = before;
	}
	put_free(heap, piece);
}

void heap_give(struct heap *heap, struct piece *piece, struct stream *stream, uint64_t seqno)
{
	if (stream && timeline_reached(stream, seqno))
		stream = NULL;
	piece->is_used = false;
	piece->stream = stream;
	piece->seqno = stream ? seqno : 0;
	piece_join(heap, piece);
}

void heap_reclaim(struct heap *heap)
{
	struct node *at = heap->pending.next;

	while (at != &heap->pending) {
		struct piece *piece = container_of(at, struct piece, pending);

		at = at->next;
		if (!timeline_reached(piece->stream, piece->seqno))
			continue;
		/* Only this piece changes: its neighbours wait for something else. */
		take_free(heap, piece);
		piece->stream = NULL;
		piece->seqno = 0;
		piece_join(heap, piece);
	}
}

/* The largest block that may be released; NULL: none. */
static struct block *find_empty(const struct heap *heap, uint64_t size_max)
{
	struct block *found = NULL;

	for (struct node *at = heap->blocks.next; at != &heap->blocks; at = at->next) {
		struct block *block = container_of(at, struct block, node);

		if (!block->first->is_used && is_empty_block(block->first) &&
			block->size <= size_max && (!found || block->size > found->size))
			found = block;
	}
	return found;
}

bool heap_release(struct heap *heap, uint64_t size_max, uint64_t *ret_address, uint64_t *ret_size)
{
	struct block *block = heap->n_empty > 0 ? find_empty(heap, size_max) : NULL;

	if (!block)
		return false;
	take_free(heap, block->first);
	node_remove(&block->node);
	heap->size -= block->size;
	*ret_address = block->address;
	*ret_size = block->size;
	free(block->first);
	free(block);
	return true;
}

struct piece *heap_next_pending(struct heap *heap, const struct piece *after)
{
	struct node *next = after ? after->pending.next : heap->pending.next;

	return next == &heap->pending ? NULL : container_of(next, struct piece, pending);
}
