/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies within host memory: between pinned memory, and between it and the staging memory. A
 * worker.
 *
 * Some drivers make cuMemcpy*Async wait until such a copy is done: 580 does, for any kind of
 * pointer. The stream may be blocked until another client writes a semaphore. The worker
 * would then wait in the driver, and every other thread for the driver's locks. A batch of
 * lines that the GPU reads in the stream's order returns at once. Drivers before 12.8 have
 * no batches.
 */

#include "copy.h"
#include "server/session/session.h"
#include "server/memory/host.h"

/* The most lines of one call, which bounds its cost. */
#define LINES_MAX 64

struct lines {
	CUdeviceptr dst[LINES_MAX], src[LINES_MAX];
	size_t size[LINES_MAX];
	size_t n;
};

static bool has_batches(void)
{
	return (void (*)(void))cuda.cuMemcpyBatchAsync != (void (*)(void))cuda_api_absent;
}

static CUresult copy_lines_singly(const struct lines *lines, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < lines->n && result == CUDA_SUCCESS; i++)
		result = cuda.cuMemcpyDtoDAsync_v2(
			lines->dst[i], lines->src[i], lines->size[i], real);
	return result;
}

/* Queues the lines, and empties the list. */
static CUresult lines_flush(struct lines *lines, CUstream real)
{
	CUmemcpyAttributes in_order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	size_t first = 0, failed = 0;
	CUresult result;

	if (lines->n == 0)
		return CUDA_SUCCESS;
	if (has_batches())
		result = cuda.cuMemcpyBatchAsync(lines->dst, lines->src, lines->size, lines->n,
			&in_order, &first, 1, &failed, real);
	else
		result = copy_lines_singly(lines, real);
	lines->n = 0;
	return result;
}

/* Splits the line at the end of a registration. */
static CUresult lines_add(
	struct lines *lines, uint64_t dst, uint64_t src, uint64_t size, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	while (size > 0 && result == CUDA_SUCCESS) {
		uint64_t n = host_cut(dst, host_cut(src, size));

		lines->dst[lines->n] = dst;
		lines->src[lines->n] = src;
		lines->size[lines->n++] = n;
		if (lines->n == LINES_MAX)
			result = lines_flush(lines, real);
		dst += n;
		src += n;
		size -= n;
	}
	return result;
}

CUresult copy_host_line(uint64_t dst, uint64_t src, uint64_t size, CUstream real)
{
	struct lines lines = {.n = 0};
	CUresult result = lines_add(&lines, dst, src, size, real);

	return result == CUDA_SUCCESS ? lines_flush(&lines, real) : result;
}

static uint64_t row_of(const struct box_end *end, uint64_t y, uint64_t z)
{
	return end->at.address + (z * end->rows + y) * end->pitch;
}

static CUresult copy_slice(struct session *session, struct lines *lines, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size, uint64_t z, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	for (uint64_t y = 0; y < size->height && result == CUDA_SUCCESS; y++) {
		if (atomic_load(&session->is_ending))
			break;
		result = lines_add(lines, row_of(dst, y, z), row_of(src, y, z), size->width, real);
	}
	return result;
}

CUresult copy_host_box(struct session *session, const struct box_end *dst,
	const struct box_end *src, const struct box_size *size, CUstream real)
{
	struct lines lines = {.n = 0};
	CUresult result = CUDA_SUCCESS;

	if (size->width == 0)
		return CUDA_SUCCESS;
	for (uint64_t z = 0; z < size->depth && result == CUDA_SUCCESS; z++) {
		if (atomic_load(&session->is_ending))
			return CUDA_SUCCESS;
		result = copy_slice(session, &lines, dst, src, size, z, real);
	}
	return result == CUDA_SUCCESS ? lines_flush(&lines, real) : result;
}
