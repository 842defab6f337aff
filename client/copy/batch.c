/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Batches of copies, of linear memory or in three dimensions. Any thread of the application.
 *
 * Invariant: the whole batch is checked before any copy is made. The copies of a
 * batch have no defined order; here they run in the order of the list.
 */

#include "box.h"
#include "calls_copy.h"
#include "copy.h"
#include "client/stream/recorder.h"

#define COPY_FLAGS CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE

/* The index to report if no single copy was wrong. */
#define NO_COPY SIZE_MAX

/* Whether the order says when the copy's source may be read, and no unknown flags are set. */
static bool batch_order_is_known(CUmemcpySrcAccessOrder order, unsigned flags)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY && !(flags & ~(unsigned)COPY_FLAGS);
}

/* The stream of a batch, never the legacy NULL stream, and whether it captures. */
static CUresult batch_enter(CUstream handle, struct stream **ret_stream, bool *ret_captures)
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

/* Before CUDA 13 these two calls also reported which copy was wrong. */
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

/* One end, as in the other calls. */
struct end {
	CUmemorytype type;
	CUarray array;
	CUdeviceptr address;
	size_t x, y, z, pitch, rows;
};

/*
 * Bytes per element: the arrays' element size, or 1 without arrays. 0: two arrays
 * with different elements.
 */
static size_t element_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	const CUmemcpy3DOperand *ends[] = {&op->src, &op->dst};
	size_t element = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const struct array *array = NULL;
		struct array_size size;

		if (ends[i]->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
			array = array_find(ends[i]->op.array.array);
		if (!array)
			continue; /* box_read() refuses an invalid array */
		array_size(array, &size);
		if (element != 0 && element != size.element)
			return 0;
		element = size.element;
	}
	return element ? element : 1;
}

static bool operand_read(const CUmemcpy3DOperand *operand, const CUextent3D *extent, size_t element,
	struct end *ret_end)
{
	switch (operand->type) {
	case CU_MEMCPY_OPERAND_TYPE_ARRAY:
		*ret_end = (struct end){
			.type = CU_MEMORYTYPE_ARRAY,
			.array = operand->op.array.array,
			.y = operand->op.array.offset.y,
			.z = operand->op.array.offset.z,
		};
		return !__builtin_mul_overflow(operand->op.array.offset.x, element, &ret_end->x);
	case CU_MEMCPY_OPERAND_TYPE_POINTER:
		*ret_end = (struct end){
			.type = CU_MEMORYTYPE_UNIFIED,
			.address = operand->op.ptr.ptr,
			.rows = operand->op.ptr.layerHeight,
		};
		/* 0 means without gaps */
		return (operand->op.ptr.rowLength == 0 ||
			       operand->op.ptr.rowLength >= extent->width) &&
		       (ret_end->rows == 0 || ret_end->rows >= extent->height) &&
		       !__builtin_mul_overflow(operand->op.ptr.rowLength, element, &ret_end->pitch);
	default:
		return false;
	}
}

static CUresult copy_read(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *ret_copy)
{
	const CUextent3D *extent = &op->extent;
	size_t element = element_of(op), width;
	struct end src, dst;

	if (element == 0 || !batch_order_is_known(op->srcAccessOrder, op->flags) ||
		extent->width == 0 || extent->height == 0 || extent->depth == 0 ||
		!operand_read(&op->src, extent, element, &src) ||
		!operand_read(&op->dst, extent, element, &dst) ||
		__builtin_mul_overflow(extent->width, element, &width))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_copy = (CUDA_MEMCPY3D){
		.srcXInBytes = src.x,
		.srcY = src.y,
		.srcZ = src.z,
		.srcMemoryType = src.type,
		.srcDevice = src.address,
		.srcArray = src.array,
		.srcPitch = src.pitch,
		.srcHeight = src.rows,
		.dstXInBytes = dst.x,
		.dstY = dst.y,
		.dstZ = dst.z,
		.dstMemoryType = dst.type,
		.dstDevice = dst.address,
		.dstArray = dst.array,
		.dstPitch = dst.pitch,
		.dstHeight = dst.rows,
		.WidthInBytes = width,
		.Height = extent->height,
		.Depth = extent->depth,
	};
	return CUDA_SUCCESS;
}

static bool is_pageable(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	return op->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
	       copy_is_pageable(op->src.op.ptr.ptr);
}

/* `ret_waits': as for batches of linear memory. */
static CUresult batch_check(
	const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n, bool *ret_waits, size_t *ret_failed)
{
	CUresult result = CUDA_SUCCESS;

	*ret_waits = false;
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		CUDA_MEMCPY3D copy;
		struct box box;

		*ret_failed = i;
		result = copy_read(&ops[i], &copy);
		if (result == CUDA_SUCCESS)
			result = box_read(&copy, &box);
		*ret_waits |= ops[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
			      is_pageable(&ops[i]);
	}
	return result;
}

/* The program's own memory has been read when box_copy() returns; other copies are waited for. */
static CUresult copy_one(const CUDA_MEMCPY3D_BATCH_OP *op, struct stream *stream, bool captures)
{
	CUDA_MEMCPY3D copy;
	CUresult result = copy_read(op, &copy);

	if (result == CUDA_SUCCESS)
		result = box_copy(&copy, (CUstream)stream, false);
	if (result != CUDA_SUCCESS || captures || is_pageable(op) ||
		op->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
		return result;
	return stream_wait(stream);
}

static CUresult batch_copy_boxes(CUDA_MEMCPY3D_BATCH_OP *ops, size_t n, unsigned long long flags,
	CUstream handle, size_t *ret_failed)
{
	bool captures = false, waits;
	struct stream *stream;
	CUresult result = batch_enter(handle, &stream, &captures);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ops || n == 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = batch_check(ops, n, &waits, ret_failed);
	if (result == CUDA_SUCCESS && waits && !captures)
		result = stream_wait_turn(stream);
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		*ret_failed = i;
		result = copy_one(&ops[i], stream, captures);
	}
	return result;
}

CUresult local_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
	unsigned long long flags, CUstream hStream)
{
	size_t failed = NO_COPY;
	CUresult result = batch_copy_boxes(opList, numOps, flags, hStream, &failed);

	if (failIdx && result != CUDA_SUCCESS)
		*failIdx = failed;
	return result;
}
