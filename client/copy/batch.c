/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Batches of copies. Any thread of the application.
 *
 * Invariant: the whole batch is checked before any copy is made. The copies of a
 * batch have no defined order; here they run in the order of the list.
 */

#include "batch.h"

#include "client.h"
#include "copy.h"
#include "client/stream/recorder.h"

#define COPY_FLAGS CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE

/* The index to report if no single copy was wrong. */
#define NO_COPY SIZE_MAX

bool batch_order_is_known(CUmemcpySrcAccessOrder order, unsigned flags)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY && !(flags & ~(unsigned)COPY_FLAGS);
}

CUresult batch_enter(CUstream handle, struct stream **ret_stream, bool *ret_captures)
{
	struct context *context;
	CUresult result;

	if (!context_current || !handle || handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_enter(&context);
	if (result != CUDA_SUCCESS)
		return result;
	result = stream_resolve(context, handle, ret_stream);
	return result == CUDA_SUCCESS ? recorder_look(*ret_stream, ret_captures) : result;
}

static bool attributes_are_known(
	const CUmemcpyAttributes *attrs, const size_t *first, size_t n, size_t count)
{
	if (!attrs || !first || n == 0 || n > count || first[0] != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!batch_order_is_known(attrs[i].srcAccessOrder, attrs[i].flags) ||
			first[i] >= count || (i > 0 && first[i] <= first[i - 1]))
			return false;
	return true;
}

/* The attributes of each copy, in order. */
struct orders {
	const CUmemcpyAttributes *attrs;
	const size_t *first;
	size_t n, next;
};

static CUmemcpySrcAccessOrder order_of(struct orders *orders, size_t copy)
{
	if (orders->next < orders->n && orders->first[orders->next] == copy)
		orders->next++;
	return orders->attrs[orders->next - 1].srcAccessOrder;
}

/*
 * `ret_waits': the GPU cannot access some source. That source is read during the
 * call, so earlier work on the stream must be awaited to keep the order.
 */
static CUresult batch_check_line(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
	const size_t *sizes, size_t count, struct orders orders, bool *ret_waits,
	size_t *ret_failed)
{
	*ret_waits = false;
	for (size_t i = 0; i < count; i++) {
		CUresult result = sizes[i] > 0 ? copy_check(dsts[i], srcs[i], sizes[i])
					       : CUDA_ERROR_INVALID_VALUE;

		*ret_failed = i;
		if (result != CUDA_SUCCESS)
			return result;
		*ret_waits |= order_of(&orders, i) == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
			      copy_is_pageable(srcs[i]);
	}
	return CUDA_SUCCESS;
}

static CUresult batch_copy_lines(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	struct orders orders, CUstream handle, size_t *ret_failed)
{
	bool captures = false, waits;
	struct stream *stream;
	CUresult result = batch_enter(handle, &stream, &captures);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dsts || !srcs || !sizes || count == 0 ||
		!attributes_are_known(orders.attrs, orders.first, orders.n, count))
		return CUDA_ERROR_INVALID_VALUE;
	/* The driver cannot capture batches either; the capture stays valid. */
	if (captures)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	result = batch_check_line(dsts, srcs, sizes, count, orders, &waits, ret_failed);
	if (result == CUDA_SUCCESS && waits)
		result = stream_wait_turn(stream);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		bool is_early = order_of(&orders, i) == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

		*ret_failed = i;
		result = is_early ? copy_early(dsts[i], srcs[i], sizes[i], stream)
				  : copy_call(dsts[i], srcs[i], sizes[i], HOST_BOTH, false,
					    (CUstream)stream);
	}
	return result;
}

/* Before CUDA 13 this call also reported which copy was wrong. */
CUresult local_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	CUstream hStream)
{
	struct orders orders = {.attrs = attrs, .first = attrsIdxs, .n = numAttrs};
	size_t failed = NO_COPY;
	CUresult result = batch_copy_lines(dsts, srcs, sizes, count, orders, hStream, &failed);

	if (failIdx && result != CUDA_SUCCESS)
		*failIdx = failed;
	return result;
}
