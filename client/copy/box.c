/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of boxes: one message within the GPU's memory; otherwise rows are gathered
 * in pieces of the staging memory. Any thread of the application.
 *
 * Invariant: a chunk is a run of whole rows that are one pitch apart on the GPU, or
 * a part of one row that is larger than a piece.
 */

#include "box.h"

#include <string.h>

#include "client/stream/staging.h"
#include "client/stream/timeline.h"
#include "client/memory/registered.h"
#include "send_copy.h"

struct chunk {
	uint64_t x, row; /* rows, counted through all slices */
	uint32_t width, rows;
};

/* A chunk that the GPU is writing into staging. */
struct arriving {
	struct chunk chunk;
	struct staging_piece piece;
	uint64_t seqno;
};

bool box_extent(const struct box *box, const struct box_end *end, uint64_t *ret_bytes)
{
	uint64_t rows, slice, slices;

	return !__builtin_mul_overflow(end->pitch, box->height - 1, &rows) &&
	       !__builtin_mul_overflow(end->pitch, end->rows, &slice) &&
	       !__builtin_mul_overflow(slice, box->depth - 1, &slices) &&
	       !__builtin_add_overflow(rows, slices, ret_bytes) &&
	       !__builtin_add_overflow(*ret_bytes, box->width, ret_bytes) &&
	       *ret_bytes <= UINT64_MAX - end->address;
}

static uint64_t row_address(const struct box *box, const struct box_end *end, uint64_t row)
{
	return end->address + (row / box->height * end->rows + row % box->height) * end->pitch;
}

static bool at_end(const struct box *box, const struct chunk *chunk)
{
	return chunk->row >= box->height * box->depth;
}

/* Sets the size of a chunk that begins at x and row. */
static void chunk_size(const struct box *box, const struct box_end *device, struct chunk *chunk)
{
	uint64_t rows = box->height * box->depth - chunk->row;

	chunk->width = (uint32_t)MIN(box->width - chunk->x, STAGING_PIECE_MAX);
	if (device->array || device->rows != box->height)
		rows = MIN(rows, box->height - chunk->row % box->height);
	if (box->width > STAGING_PIECE_MAX)
		rows = 1;
	chunk->rows = (uint32_t)MIN(rows, STAGING_PIECE_MAX / chunk->width);
}

static void chunk_next(const struct box *box, struct chunk *chunk)
{
	chunk->x += chunk->width;
	if (chunk->x == box->width) {
		chunk->x = 0;
		chunk->row += chunk->rows;
	}
}

/* Between an array and other memory of the GPU. */
static CUresult send_array(const struct box *box, const struct box_end *in,
	const struct box_end *line, bool is_out, struct stream *stream)
{
	return send_copy_array(stream_id(stream), array_id(in->array), is_out, in->x, in->y, in->z,
		line->address, line->pitch, line->rows, box->width, box->height, box->depth);
}

static CUresult send_box(const struct box *box, struct stream *stream)
{
	const struct box_end *dst = &box->dst, *src = &box->src;

	if (dst->array && src->array)
		return send_copy_arrays(stream_id(stream), array_id(dst->array),
			array_id(src->array), dst->x, dst->y, dst->z, src->x, src->y, src->z,
			box->width, box->height, box->depth);
	if (dst->array)
		return send_array(box, dst, src, false, stream);
	if (src->array)
		return send_array(box, src, dst, true, stream);
	return send_copy_box(stream_id(stream), dst->address, src->address, dst->pitch, src->pitch,
		dst->rows, src->rows, box->width, box->height, box->depth);
}

/* Copies a chunk between the GPU and a piece of staging. */
static CUresult send_rows(const struct box *box, const struct box_end *end, bool is_out,
	const struct chunk *chunk, const struct staging_piece *piece, struct stream *stream)
{
	uint64_t address = row_address(box, end, chunk->row) + chunk->x;

	if (end->array)
		return send_copy_array_rows(stream_id(stream), array_id(end->array), is_out,
			end->x + chunk->x, end->y + chunk->row % box->height,
			end->z + chunk->row / box->height, piece->offset, chunk->width,
			chunk->rows);
	if (is_out)
		return send_copy_rows_out(stream_id(stream), address, end->pitch, piece->offset,
			chunk->width, chunk->rows);
	return send_copy_rows_in(
		stream_id(stream), address, end->pitch, piece->offset, chunk->width, chunk->rows);
}

CUresult box_on_device(const struct box *box, struct stream *stream)
{
	CUresult result = send_box(box, stream);

	if (result == CUDA_SUCCESS)
		stream_issued(stream);
	return result;
}

static CUresult chunk_send(const struct box *box, const struct chunk *chunk, struct stream *stream)
{
	struct staging_piece piece;
	CUresult result = staging_take((uint64_t)chunk->width * chunk->rows, &piece);
	uint8_t *bytes;

	if (result != CUDA_SUCCESS)
		return result;
	bytes = staging_bytes(&piece);
	for (uint32_t i = 0; i < chunk->rows; i++, bytes += chunk->width)
		memcpy(bytes,
			(const void *)(uintptr_t)(row_address(box, &box->src, chunk->row + i) +
						  chunk->x),
			chunk->width);
	result = send_rows(box, &box->dst, false, chunk, &piece, stream);
	if (result != CUDA_SUCCESS) {
		staging_give(&piece);
		return result;
	}
	staging_give_later(&piece, stream);
	return CUDA_SUCCESS;
}

CUresult box_to_device(const struct box *box, struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	for (struct chunk chunk = {0}; result == CUDA_SUCCESS && !at_end(box, &chunk);) {
		chunk_size(box, &box->dst, &chunk);
		result = chunk_send(box, &chunk, stream);
		chunk_next(box, &chunk);
	}
	return result;
}

/* Requests a chunk, for which a piece has been taken. */
static CUresult arrival_begin(
	const struct box *box, struct arriving *arriving, struct stream *stream)
{
	const struct chunk *chunk = &arriving->chunk;
	CUresult result = send_rows(box, &box->src, true, chunk, &arriving->piece, stream);

	if (result != CUDA_SUCCESS) {
		staging_give(&arriving->piece);
		return result;
	}
	stream_issued(stream);
	result = timeline_post(stream, &arriving->seqno);
	if (result != CUDA_SUCCESS)
		staging_give_later(&arriving->piece, stream);
	return result;
}

static CUresult arrival_end(
	const struct box *box, const struct arriving *arriving, struct stream *stream)
{
	const struct chunk *chunk = &arriving->chunk;
	const uint8_t *bytes = staging_bytes(&arriving->piece);
	CUresult result = timeline_wait(stream, arriving->seqno);

	if (result != CUDA_SUCCESS) {
		staging_give_later(&arriving->piece, stream);
		return result;
	}
	for (uint32_t i = 0; i < chunk->rows; i++, bytes += chunk->width)
		memcpy((void *)(uintptr_t)(row_address(box, &box->dst, chunk->row + i) + chunk->x),
			bytes, chunk->width);
	staging_give(&arriving->piece);
	return CUDA_SUCCESS;
}

/* Takes a piece for the next chunk; waits for a piece only if no chunk is arriving. */
static bool arrival_try(struct arriving *next, bool may_wait, CUresult *ret_result)
{
	uint64_t size = (uint64_t)next->chunk.width * next->chunk.rows;

	if (!may_wait)
		return staging_try(size, &next->piece);
	*ret_result = staging_take(size, &next->piece);
	return *ret_result == CUDA_SUCCESS;
}

/* Empties one chunk while the next one arrives. */
CUresult box_from_device(const struct box *box, struct stream *stream)
{
	struct arriving queue[2];
	unsigned n_begun = 0, n_ended = 0;
	struct chunk chunk = {0};
	CUresult result = CUDA_SUCCESS;

	while (result == CUDA_SUCCESS && (!at_end(box, &chunk) || n_ended < n_begun)) {
		struct arriving *next = &queue[n_begun % 2];

		if (!at_end(box, &chunk) && n_begun - n_ended < 2) {
			chunk_size(box, &box->src, &chunk);
			next->chunk = chunk;
			if (arrival_try(next, n_begun == n_ended, &result)) {
				result = arrival_begin(box, next, stream);
				n_begun += result == CUDA_SUCCESS;
				chunk_next(box, &chunk);
				continue;
			}
		}
		if (result == CUDA_SUCCESS)
			result = arrival_end(box, &queue[n_ended++ % 2], stream);
	}
	for (; n_ended < n_begun; n_ended++)
		staging_give_later(&queue[n_ended % 2].piece, stream);
	return result;
}

void box_on_host(const struct box *box)
{
	struct box_end dst = box->dst, src = box->src;

	dst.address = registered_own(dst.address);
	src.address = registered_own(src.address);
	for (uint64_t row = 0; row < box->height * box->depth; row++)
		memmove((void *)(uintptr_t)row_address(box, &dst, row),
			(const void *)(uintptr_t)row_address(box, &src, row), box->width);
}
