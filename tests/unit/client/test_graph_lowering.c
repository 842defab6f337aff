/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The division of graph nodes for the server: it omits nothing, no part crosses the
 * end of a piece of pinned memory, and memory that the GPU cannot reach goes through
 * memory that it can reach.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "layout.h"
#include "client/graph/graph_lowering.h"

#define DEVICE_ADDRESS 0x200000000000ull

static struct node_op line_op(uint64_t dst, uint64_t src, uint64_t size)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	op.copy.box = (struct box){
		.dst = {.address = dst, .pitch = size, .rows = 1, .is_ours = true},
		.src = {.address = src, .pitch = size, .rows = 1, .is_ours = true},
		.width = size,
		.height = 1,
		.depth = 1,
	};
	return op;
}

static void test_line_is_cut_at_pieces(void **state)
{
	const uint64_t size = 3 * HOST_PIECE, src = HOST_SPACE + HOST_PIECE - 100;
	struct node_op op = line_op(DEVICE_ADDRESS, src, size);
	struct lowering lowering;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(lowering_bounce_size(&op), 0);
	assert_int_equal(lowering_make(&op, 0, 0, &lowering), CUDA_SUCCESS);
	assert_int_equal(lowering.n, 4);
	for (uint32_t i = 0; i < lowering.n; i++) {
		const struct box *box = &lowering.list[i].copy;

		assert_int_equal(lowering.list[i].kind, LOWERED_COPY);
		assert_int_equal(box->src.address, src + at);
		assert_int_equal(box->dst.address, DEVICE_ADDRESS + at);
		assert_int_equal(box->src.address / HOST_PIECE,
			(box->src.address + box->width - 1) / HOST_PIECE);
		at += box->width;
	}
	assert_int_equal(at, size);
	lowering_fini(&lowering);
}

static void test_nothing_to_copy(void **state)
{
	struct node_op op = line_op(DEVICE_ADDRESS, DEVICE_ADDRESS, 0);
	struct lowering lowering;

	(void)state;
	assert_int_equal(lowering_make(&op, 0, 0, &lowering), CUDA_SUCCESS);
	assert_int_equal(lowering.n, 1);
	assert_int_equal(lowering.list[0].kind, LOWERED_EMPTY);
	lowering_fini(&lowering);
}

static void test_fill_is_cut_at_elements(void **state)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
	struct lowering lowering;
	uint64_t count = 0;

	(void)state;
	op.fill = (struct fill){
		.dst = HOST_SPACE + HOST_PIECE - 8, .width = 4, .count = 10, .rows = 1};
	assert_int_equal(lowering_make(&op, 0, 0, &lowering), CUDA_SUCCESS);
	assert_int_equal(lowering.n, 2);
	assert_int_equal(lowering.list[0].fill.count, 2);
	for (uint32_t i = 0; i < lowering.n; i++)
		count += lowering.list[i].fill.count;
	assert_int_equal(count, 10);
	lowering_fini(&lowering);
}

enum {
	WIDTH = 24,
	HEIGHT = 7,
	DEPTH = 3,
	PITCH = 32,
	ROWS = 9,
	BOUNCE_BYTES = 5 * WIDTH
};

/* The program's memory, and memory in place of the GPU's and of the bounce memory. */
static uint8_t program[PITCH * ROWS * DEPTH], device[PITCH * ROWS * DEPTH], bounce[BOUNCE_BYTES];

static struct node_op box_op(bool is_up)
{
	struct node_op op = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	struct box_end host = {.address = (uintptr_t)program, .pitch = PITCH, .rows = ROWS};
	struct box_end gpu = {
		.address = (uintptr_t)device, .pitch = PITCH, .rows = ROWS, .is_ours = true};

	op.copy.box = (struct box){
		.dst = is_up ? gpu : host,
		.src = is_up ? host : gpu,
		.width = WIDTH,
		.height = HEIGHT,
		.depth = DEPTH,
	};
	return op;
}

/* Does what the GPU would do. */
static void copy(const struct box *box)
{
	for (uint64_t row = 0; row < box->height; row++)
		memcpy((void *)(uintptr_t)(box->dst.address + row * box->dst.pitch),
			(const void *)(uintptr_t)(box->src.address + row * box->src.pitch),
			box->width);
}

static void move_all(const struct node_op *op, uint64_t bounce_size)
{
	struct lowering lowering;

	assert_int_equal(
		lowering_make(op, (uintptr_t)bounce, bounce_size, &lowering), CUDA_SUCCESS);
	assert_int_equal(lowering.n % 2, 0);
	for (uint32_t i = 0; i < lowering.n; i++)
		if (lowering.list[i].kind == LOWERED_CALL)
			box_chunk_move(&op->copy.box, &lowering.list[i].chunk);
		else
			copy(&lowering.list[i].copy);
	lowering_fini(&lowering);
}

static void check_moved(const uint8_t *to, const uint8_t *from)
{
	for (size_t z = 0; z < DEPTH; z++)
		for (size_t y = 0; y < HEIGHT; y++)
			assert_memory_equal(
				to + (z * ROWS + y) * PITCH, from + (z * ROWS + y) * PITCH, WIDTH);
	/* Bytes between and after the rows stay as they were. */
	for (size_t z = 0; z < DEPTH; z++)
		for (size_t y = 0; y < ROWS; y++)
			for (size_t x = y < HEIGHT ? WIDTH : 0; x < PITCH; x++)
				assert_int_equal(to[(z * ROWS + y) * PITCH + x], 0);
}

/* In every size of the bounce memory, even less than a row. */
static void test_boxes_go_both_ways(void **state)
{
	const uint64_t bytes = (uint64_t)WIDTH * HEIGHT * DEPTH;

	(void)state;
	for (uint64_t size = 1; size <= BOUNCE_BYTES; size++) {
		struct node_op up = box_op(true), down = box_op(false);

		assert_int_equal(lowering_bounce_size(&up), bytes);
		for (size_t i = 0; i < sizeof(program); i++)
			program[i] = (uint8_t)(i * 3 + size);
		memset(device, 0, sizeof(device));
		move_all(&up, size);
		check_moved(device, program);
		memset(program, 0, sizeof(program));
		move_all(&down, size);
		check_moved(program, device);
	}
}

/* Each chunk has its position in the array, and no row is omitted. */
static void test_array_goes_by_chunks(void **state)
{
	struct node_op op = line_op(HOST_SPACE, 0x1000, 100);
	struct box *box = &op.copy.box;
	struct lowering lowering;
	uint64_t rows = 0;

	(void)state;
	box->dst.array = (struct array *)&op;
	box->dst.x = 4;
	box->dst.y = 5;
	box->dst.z = 6;
	box->src.is_ours = false;
	box->src.rows = box->height = 10;
	box->depth = 3;
	assert_int_equal(lowering_bounce_size(&op), 3000);
	assert_int_equal(lowering_make(&op, HOST_SPACE, 420, &lowering), CUDA_SUCCESS);
	for (uint32_t i = 0; i < lowering.n; i += 2) {
		const struct box *copy = &lowering.list[i + 1].copy;

		assert_int_equal(lowering.list[i].kind, LOWERED_CALL);
		assert_int_equal(lowering.list[i + 1].kind, LOWERED_COPY);
		assert_ptr_equal(copy->dst.array, box->dst.array);
		assert_int_equal(copy->src.address, HOST_SPACE);
		assert_int_equal(copy->dst.x, 4);
		assert_int_equal(copy->dst.y, 5 + rows % 10);
		assert_int_equal(copy->dst.z, 6 + rows / 10);
		assert_true(copy->dst.y + copy->height <= 15);
		rows += copy->height;
	}
	assert_int_equal(rows, 30);
	lowering_fini(&lowering);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_is_cut_at_pieces),
		cmocka_unit_test(test_nothing_to_copy),
		cmocka_unit_test(test_fill_is_cut_at_elements),
		cmocka_unit_test(test_boxes_go_both_ways),
		cmocka_unit_test(test_array_goes_by_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
