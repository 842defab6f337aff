/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Heaps compared with an array of allocations, in random order, with streams that
 * advance now and then: no memory is given out twice, or to a stream while another
 * may use it, and in the end every block is whole again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "client/stream/timeline.h"
#include "client/memory/heap.h"
#include "tests/unit/seed.h"

#define BLOCKS 4u
#define BLOCK_SLOTS 512u
#define BLOCK_BYTES ((uint64_t)BLOCK_SLOTS * HEAP_ALIGN)
#define SLOTS (BLOCKS * BLOCK_SLOTS)
#define STREAMS 3u
#define PIECES 400u
#define STEPS 200000u

static struct stream fakes[STREAMS];
static uint64_t posted[STREAMS], reached[STREAMS];

bool timeline_reached(const struct stream *stream, uint64_t seqno)
{
	return reached[stream - fakes] >= seqno;
}

struct slot {
	bool is_used;
	struct stream *stream; /* the stream that freed it last, at ... */
	uint64_t seqno;
};

static struct slot slots[SLOTS];

static uint64_t address_of(unsigned slot)
{
	/* Blocks do not touch each other. */
	return 0x200000000000ull + (uint64_t)(slot / BLOCK_SLOTS) * 0x100000000ull +
	       (uint64_t)(slot % BLOCK_SLOTS) * HEAP_ALIGN;
}

static unsigned slot_of(uint64_t address)
{
	uint64_t off = address - 0x200000000000ull;

	return (unsigned)(off >> 32) * BLOCK_SLOTS + (unsigned)((uint32_t)off / HEAP_ALIGN);
}

static void blocks_add(struct heap *heap)
{
	heap_init(heap);
	memset(slots, 0, sizeof(slots));
	memset(posted, 0, sizeof(posted));
	memset(reached, 0, sizeof(reached));
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(heap_add(heap, address_of(i * BLOCK_SLOTS), BLOCK_BYTES), 0);
}

static void check_taken(const struct piece *piece, uint64_t size, const struct stream *stream)
{
	unsigned first = slot_of(piece->address);

	assert_true(piece->is_used);
	assert_int_equal(piece->size, size);
	for (unsigned i = first; i < first + size / HEAP_ALIGN; i++) {
		assert_false(slots[i].is_used);
		if (slots[i].stream && slots[i].stream != stream)
			assert_true(timeline_reached(slots[i].stream, slots[i].seqno));
		slots[i].is_used = true;
	}
}

static void give(struct heap *heap, struct piece *piece, struct stream *stream)
{
	uint64_t seqno = stream ? ++posted[stream - fakes] : 0;
	unsigned first = slot_of(piece->address);

	for (unsigned i = first; i < first + piece->size / HEAP_ALIGN; i++)
		slots[i] = (struct slot){false, stream, seqno};
	heap_give(heap, piece, stream, seqno);
}

static void release_all(struct heap *heap)
{
	uint64_t address, size;

	memcpy(reached, posted, sizeof(reached));
	heap_reclaim(heap);
	assert_int_equal(heap->n_empty, BLOCKS);
	assert_int_equal(heap->empty_bytes, BLOCKS * BLOCK_BYTES);
	assert_false(heap_release(heap, BLOCK_BYTES - 1, &address, &size));
	for (unsigned i = 0; i < BLOCKS; i++) {
		assert_true(heap_release(heap, UINT64_MAX, &address, &size));
		assert_int_equal(size, BLOCK_BYTES);
		assert_int_equal(slot_of(address) % BLOCK_SLOTS, 0);
	}
	assert_false(heap_release(heap, UINT64_MAX, &address, &size));
	assert_int_equal(heap->size, 0);
	assert_null(heap_next_pending(heap, NULL));
}

static struct stream *random_stream(void)
{
	unsigned i = (unsigned)rand() % (STREAMS + 1);

	return i < STREAMS ? &fakes[i] : NULL;
}

static struct piece *take_some(struct heap *heap)
{
	uint64_t size = (1 + (uint64_t)(rand() % (1 << rand() % 9))) * HEAP_ALIGN;
	struct stream *stream = random_stream();
	struct piece *piece;

	if (rand() % 8 == 0) {
		uint64_t align = (uint64_t)HEAP_ALIGN << rand() % 6;

		piece = heap_take_aligned(heap, size, align);
		stream = NULL;
		assert_true(!piece || piece->address % align == 0);
	} else if (rand() % 8 == 0) {
		uint64_t address = address_of((unsigned)rand() % SLOTS);

		piece = heap_take_at(heap, address, size);
		stream = NULL;
		assert_true(!piece || piece->address == address);
	} else {
		piece = heap_take(heap, size, stream);
	}
	if (piece)
		check_taken(piece, size, stream);
	return piece;
}

static void test_random(void **state)
{
	static struct piece *pieces[PIECES];
	static struct heap heap;
	unsigned n_taken = 0;

	(void)state;
	srand(seed_read(1));
	blocks_add(&heap);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)rand() % PIECES, s = (unsigned)rand() % STREAMS;

		if (pieces[i]) {
			give(&heap, pieces[i], random_stream());
			pieces[i] = NULL;
		} else {
			pieces[i] = take_some(&heap);
			n_taken += pieces[i] != NULL;
		}
		if (rand() % 16 == 0)
			reached[s] += (uint64_t)rand() % (posted[s] - reached[s] + 1);
		if (rand() % 64 == 0)
			heap_reclaim(&heap);
	}
	assert_true(n_taken > STEPS / 8);
	for (unsigned i = 0; i < PIECES; i++)
		if (pieces[i])
			give(&heap, pieces[i], random_stream());
	release_all(&heap);
}

/* A block that a stream has freed goes to that stream first, later to others, then back. */
static void test_pending(void **state)
{
	const uint64_t all = BLOCK_BYTES;
	struct piece *taken[BLOCKS], *piece;
	static struct heap heap;

	(void)state;
	blocks_add(&heap);
	for (unsigned i = 0; i < BLOCKS; i++) {
		taken[i] = heap_take(&heap, all, NULL);
		assert_non_null(taken[i]);
	}
	assert_null(heap_take(&heap, HEAP_ALIGN, NULL));
	assert_int_equal(heap.n_empty, 0);
	heap_give(&heap, taken[0], &fakes[0], 1);
	posted[0] = 1;
	assert_int_equal(heap.n_empty, 0);
	assert_null(heap_take(&heap, HEAP_ALIGN, NULL));
	assert_null(heap_take(&heap, HEAP_ALIGN, &fakes[1]));
	piece = heap_take(&heap, HEAP_ALIGN, &fakes[0]);
	assert_non_null(piece);
	assert_null(heap_take(&heap, HEAP_ALIGN, &fakes[1]));
	assert_non_null(heap_next_pending(&heap, NULL));
	reached[0] = 1;
	heap_reclaim(&heap);
	assert_null(heap_next_pending(&heap, NULL));
	heap_give(&heap, piece, NULL, 0);
	assert_int_equal(heap.n_empty, 1);
	for (unsigned i = 1; i < BLOCKS; i++)
		heap_give(&heap, taken[i], NULL, 0);
	release_all(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_pending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
