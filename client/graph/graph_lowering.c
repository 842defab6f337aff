/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Divides nodes for the server. Any thread of the application.
 *
 * Invariant: no line of a lowered node crosses the end of a piece of pinned memory
 * or is longer than LINE_MAX_BYTES.
 */

#include "graph_lowering.h"

#include <string.h>

#include "layout.h"
#include "client/util/compat.h"

#define LINE_MAX_BYTES (1ull << 30)
#define BOUNCE_MAX (4ull << 20)

void lowering_fini(struct lowering *lowering)
{
	free(lowering->list);
	*lowering = (struct lowering){0};
}

static CUresult lowering_add(struct lowering *lowering, const struct lowered_node *lowered)
{
	struct lowered_node *grown;

	if (lowering->n == lowering->n_max) {
		lowering->n_max = MAX(2 * lowering->n_max, 4u);
		grown = array_resize(lowering->list, lowering->n_max, sizeof(*grown));
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		lowering->list = grown;
	}
	lowering->list[lowering->n++] = *lowered;
	return CUDA_SUCCESS;
}

/* How many of the `size' bytes at `address' one line may have. */
static uint64_t cut_line(uint64_t address, uint64_t size)
{
	if (address >= HOST_SPACE && address < HOST_SPACE_END)
		size = MIN(size, HOST_PIECE - address % HOST_PIECE);
	return MIN(size, LINE_MAX_BYTES);
}

static bool is_empty(const struct box *box)
{
	return box->width == 0 || box->height == 0 || box->depth == 0;
}

static bool lowering_is_line(const struct box *box)
{
	return box->height == 1 && box->depth == 1;
}

static bool has_array(const struct box *box)
{
	return box->dst.array || box->src.array;
}

uint64_t lowering_bounce_size(const struct node_op *op)
{
	const struct box *box = &op->copy.box;
	uint64_t size;

	if (op->type != CU_GRAPH_NODE_TYPE_MEMCPY || is_empty(box) ||
		box->dst.is_ours == box->src.is_ours)
		return 0;
	if (__builtin_mul_overflow(box->width, box->height, &size) ||
		__builtin_mul_overflow(size, box->depth, &size))
		return BOUNCE_MAX;
	return MIN(size, BOUNCE_MAX);
}

static uint64_t address_of(
	const struct box *box, const struct box_end *end, uint64_t x, uint64_t row)
{
	return end->address + x + (row / box->height * end->rows + row % box->height) * end->pitch;
}

static CUresult lowering_add_copy(struct lowering *lowering, const struct box_end *dst,
	const struct box_end *src, uint64_t width, uint64_t rows)
{
	struct lowered_node lowered = {.kind = LOWERED_COPY};

	lowered.copy =
		(struct box){.dst = *dst, .src = *src, .width = width, .height = rows, .depth = 1};
	return lowering_add(lowering, &lowered);
}

static CUresult lowering_add_line(const struct box *box, struct lowering *lowering)
{
	struct box_end dst = box->dst, src = box->src;
	uint64_t size = box->width;
	CUresult result = CUDA_SUCCESS;

	while (size > 0 && result == CUDA_SUCCESS) {
		uint64_t n = cut_line(dst.address, cut_line(src.address, size));

		result = lowering_add_copy(lowering, &dst, &src, n, 1);
		dst.address += n;
		src.address += n;
		size -= n;
	}
	return result;
}

/* Adds the two nodes of a chunk: the copy by the host, and the copy by the GPU before or after it.
 */
static CUresult lowering_add_chunk(
	const struct box *box, const struct box_chunk *chunk, struct lowering *lowering)
{
	struct box_end bounce = {.address = chunk->bounce,
		.pitch = chunk->width,
		.rows = chunk->rows,
		.is_ours = true};
	struct box_end device = box->dst.is_ours ? box->dst : box->src;
	struct lowered_node call = {.kind = LOWERED_CALL};
	CUresult result;

	call.chunk = *chunk;
	if (device.array) {
		device.x += chunk->x;
		device.y += chunk->row % box->height;
		device.z += chunk->row / box->height;
	} else {
		device.address = address_of(box, &device, chunk->x, chunk->row);
	}
	if (box->dst.is_ours) {
		result = lowering_add(lowering, &call);
		return result == CUDA_SUCCESS ? lowering_add_copy(lowering, &device, &bounce,
							chunk->width, chunk->rows)
					      : result;
	}
	result = lowering_add_copy(lowering, &bounce, &device, chunk->width, chunk->rows);
	return result == CUDA_SUCCESS ? lowering_add(lowering, &call) : result;
}

/* Chunks are whole rows of one slice, or pieces of a row that is larger than the bounce memory. */
static CUresult lowering_add_chunks(
	const struct box *box, uint64_t bounce, uint64_t bounce_size, struct lowering *lowering)
{
	struct box_chunk chunk = {.bounce = bounce};
	CUresult result = CUDA_SUCCESS;

	while (chunk.row < box->height * box->depth && result == CUDA_SUCCESS) {
		chunk.width = MIN(box->width - chunk.x, bounce_size);
		chunk.rows = 1;
		if (chunk.width == box->width)
			chunk.rows = MIN(
				bounce_size / chunk.width, box->height - chunk.row % box->height);
		result = lowering_add_chunk(box, &chunk, lowering);
		chunk.x += chunk.width;
		if (chunk.x == box->width) {
			chunk.x = 0;
			chunk.row += chunk.rows;
		}
	}
	return result;
}

static CUresult lowering_add_box(
	const struct box *box, uint64_t bounce, uint64_t bounce_size, struct lowering *lowering)
{
	struct lowered_node whole = {.kind = LOWERED_COPY};

	if (is_empty(box)) {
		whole.kind = LOWERED_EMPTY;
		return lowering_add(lowering, &whole);
	}
	if (box->dst.is_ours && box->src.is_ours && lowering_is_line(box) && !has_array(box))
		return lowering_add_line(box, lowering);
	if (box->dst.is_ours || box->src.is_ours) {
		if (box->dst.is_ours != box->src.is_ours)
			return lowering_add_chunks(box, bounce, bounce_size, lowering);
		whole.copy = *box;
		return lowering_add(lowering, &whole);
	}
	whole.kind = LOWERED_CALL;
	whole.chunk = (struct box_chunk){.width = box->width, .rows = box->height * box->depth};
	return lowering_add(lowering, &whole);
}

static CUresult lowering_add_fill(const struct fill *fill, struct lowering *lowering)
{
	struct lowered_node lowered = {.kind = LOWERED_FILL};
	CUresult result = CUDA_SUCCESS;
	uint64_t count = fill->count;

	lowered.fill = *fill;
	if (fill->rows > 1)
		return lowering_add(lowering, &lowered);
	while (count > 0 && result == CUDA_SUCCESS) {
		lowered.fill.count = cut_line(lowered.fill.dst, count * fill->width) / fill->width;
		result = lowering_add(lowering, &lowered);
		lowered.fill.dst += lowered.fill.count * fill->width;
		count -= lowered.fill.count;
	}
	return result;
}

CUresult lowering_make(const struct node_op *op, uint64_t bounce, uint64_t bounce_size,
	struct lowering *ret_lowering)
{
	struct lowered_node lowered = {.kind = LOWERED_OP};

	*ret_lowering = (struct lowering){0};
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return lowering_add_box(&op->copy.box, bounce, bounce_size, ret_lowering);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return lowering_add_fill(&op->fill, ret_lowering);
	case CU_GRAPH_NODE_TYPE_HOST:
		lowered.kind = LOWERED_CALL;
		break;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		lowered.kind = LOWERED_EMPTY;
		break;
	default:
		break;
	}
	return lowering_add(ret_lowering, &lowered);
}

void box_chunk_move(const struct box *box, const struct box_chunk *chunk)
{
	uint64_t bounce = chunk->bounce;

	for (uint64_t i = 0; i < chunk->rows; i++, bounce += chunk->width) {
		uint64_t dst = address_of(box, &box->dst, chunk->x, chunk->row + i);
		uint64_t src = address_of(box, &box->src, chunk->x, chunk->row + i);

		if (chunk->bounce && box->dst.is_ours)
			dst = bounce;
		else if (chunk->bounce)
			src = bounce;
		memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, chunk->width);
	}
}
