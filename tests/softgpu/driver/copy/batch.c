/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Batches of linear copies: checked at the call, done by the stream.
 *
 * As measured with driver 580, a batch does not wait for its copies, even within
 * host memory. With the order DURING_API_CALL, the call reads a source that the
 * host can write before it returns.
 */

#include "copy.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/current.h"
#include "tests/softgpu/driver/stream/stream.h"

struct batch {
	const CUdeviceptr *dst, *src;
	const size_t *size;
	size_t n;
	const CUmemcpyAttributes *attributes;
	const size_t *first; /* the first copy of each of `attributes' */
	size_t n_attributes;
};

bool batch_order_is_known(CUmemcpySrcAccessOrder order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool attributes_are_known(const struct batch *batch)
{
	size_t n = batch->n_attributes;

	if (!batch->attributes || !batch->first || n == 0 || n > batch->n || batch->first[0] != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!batch_order_is_known(batch->attributes[i].srcAccessOrder) ||
			batch->first[i] >= batch->n ||
			(i > 0 && batch->first[i] <= batch->first[i - 1]))
			return false;
	return true;
}

static CUmemcpySrcAccessOrder order_of(const struct batch *batch, size_t copy)
{
	size_t i = batch->n_attributes - 1;

	while (batch->first[i] > copy)
		i--;
	return batch->attributes[i].srcAccessOrder;
}

static CUresult batch_classify(const struct batch *batch, size_t i, struct work *ret_work)
{
	*ret_work = (struct work){.kind = WORK_COPY,
		.copy = {.dst = batch->dst[i],
			.src = batch->src[i],
			.width = batch->size[i],
			.height = 1,
			.depth = 1}};
	return batch->size[i] > 0 ? copy_classify(&ret_work->copy, true, true)
				  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult batch_push(const struct batch *batch, size_t i, struct stream *stream)
{
	struct work work;
	CUresult result = batch_classify(batch, i, &work);
	bool is_read_now = !range_is_hidden(batch->src[i]) &&
			   order_of(batch, i) == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

	if (result == CUDA_SUCCESS)
		result = stream_push(stream, &work);
	return result == CUDA_SUCCESS && is_read_now ? stream_finish(stream, true) : result;
}

static CUresult batch_copy(const struct batch *batch, size_t *ret_failed, CUstream handle)
{
	struct stream *stream;
	struct work work;
	CUresult result;

	if (!current_top() || !handle || handle == CU_STREAM_LEGACY || batch->n == 0 ||
		!batch->dst || !batch->src || !batch->size || !attributes_are_known(batch))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_get(handle, &stream);
	if (result == CUDA_SUCCESS && stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	for (size_t i = 0; i < batch->n && result == CUDA_SUCCESS; i++) {
		*ret_failed = i;
		result = batch_classify(batch, i, &work);
	}
	for (size_t i = 0; i < batch->n && result == CUDA_SUCCESS; i++)
		result = batch_push(batch, i, stream);
	return result;
}

/* Until CUDA 13, the call returned the index of the bad copy; SIZE_MAX: no specific copy. */
static CUresult batch_copy_telling(const struct batch *batch, size_t *ret_failed, CUstream handle)
{
	size_t failed = SIZE_MAX;
	CUresult result = batch_copy(batch, &failed, handle);

	if (result != CUDA_SUCCESS && ret_failed)
		*ret_failed = failed;
	return result;
}

#define BATCH (&(struct batch){dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs})

ENTER_STREAM(cuMemcpyBatchAsync,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
		CUstream stream),
	batch_copy_telling(BATCH, failIdx, stream))
ENTER_STREAM(cuMemcpyBatchAsync_v2,
	(CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream stream),
	batch_copy_telling(BATCH, NULL, stream))
