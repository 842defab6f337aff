/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Batches of boxes, of memory or arrays: checked at the call, done by the stream, as
 * batches of linear copies (batch.c).
 *
 * Runs in any thread, under the driver's lock.
 */

#include "array.h"
#include "copy.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/current.h"
#include "tests/softgpu/driver/stream/stream.h"

/* Bytes of what a batch counts: an array's elements, else bytes. 0: two kinds of elements. */
static size_t element_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	const CUmemcpy3DOperand *ends[] = {&op->src, &op->dst};
	size_t element = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const struct array *array = NULL;

		if (ends[i]->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
			array = array_find(ends[i]->op.array.array);
		if (array && element && element != array->element)
			return 0;
		if (array)
			element = array->element;
	}
	return element ? element : 1;
}

static bool pointer_is_known(const CUmemcpy3DOperand *operand, const CUextent3D *extent)
{
	size_t row = operand->op.ptr.rowLength, layer = operand->op.ptr.layerHeight;

	return operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ||
	       (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
		       (row == 0 || row >= extent->width) &&
		       (layer == 0 || layer >= extent->height));
}

static void read_source(CUDA_MEMCPY3D *copy, const CUmemcpy3DOperand *src, size_t element)
{
	if (src->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy->srcArray = src->op.array.array;
		copy->srcXInBytes = src->op.array.offset.x * element;
		copy->srcY = src->op.array.offset.y;
		copy->srcZ = src->op.array.offset.z;
		return;
	}
	copy->srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy->srcDevice = src->op.ptr.ptr;
	copy->srcPitch = src->op.ptr.rowLength * element;
	copy->srcHeight = src->op.ptr.layerHeight;
}

static void read_destination(CUDA_MEMCPY3D *copy, const CUmemcpy3DOperand *dst, size_t element)
{
	if (dst->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy->dstArray = dst->op.array.array;
		copy->dstXInBytes = dst->op.array.offset.x * element;
		copy->dstY = dst->op.array.offset.y;
		copy->dstZ = dst->op.array.offset.z;
		return;
	}
	copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy->dstDevice = dst->op.ptr.ptr;
	copy->dstPitch = dst->op.ptr.rowLength * element;
	copy->dstHeight = dst->op.ptr.layerHeight;
}

static CUresult op_read(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *ret_copy)
{
	size_t element = element_of(op);
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = op->extent.width * element,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};

	if (element == 0 || !batch_order_is_known(op->srcAccessOrder) ||
		!pointer_is_known(&op->src, &op->extent) ||
		!pointer_is_known(&op->dst, &op->extent))
		return CUDA_ERROR_INVALID_VALUE;
	read_source(&copy, &op->src, element);
	read_destination(&copy, &op->dst, element);
	*ret_copy = copy;
	return CUDA_SUCCESS;
}

static CUresult op_classify(const CUDA_MEMCPY3D_BATCH_OP *op, struct work *ret_work)
{
	CUDA_MEMCPY3D copy;
	CUresult result = op_read(op, &copy);

	return result == CUDA_SUCCESS ? copy_work_3d(&copy, ret_work) : result;
}

static CUresult op_push(const CUDA_MEMCPY3D_BATCH_OP *op, struct stream *stream)
{
	struct work work;
	CUresult result = op_classify(op, &work);
	bool is_read_now = op->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
			   !range_is_hidden(op->src.op.ptr.ptr) &&
			   op->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

	if (result == CUDA_SUCCESS)
		result = stream_push(stream, &work);
	return result == CUDA_SUCCESS && is_read_now ? stream_finish(stream, true) : result;
}

/* A capture records each box as a copy. */
static CUresult op_record(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream handle)
{
	CUDA_MEMCPY3D copy;
	CUresult result = op_read(op, &copy);

	return result == CUDA_SUCCESS ? copy_submit_3d(&copy, handle, true) : result;
}

static CUresult batch_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n, unsigned long long flags,
	size_t *ret_failed, CUstream handle)
{
	struct stream *stream;
	struct work work;
	CUresult result;

	if (!current_top() || !handle || handle == CU_STREAM_LEGACY || !ops || n == 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_get(handle, &stream);
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		*ret_failed = i;
		result = op_classify(&ops[i], &work);
	}
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = stream->capture ? op_record(&ops[i], handle) : op_push(&ops[i], stream);
	return result;
}

/* Until CUDA 13, the call returned the index of the bad box; SIZE_MAX: no specific box. */
static CUresult batch_boxes_telling(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n,
	unsigned long long flags, size_t *ret_failed, CUstream handle)
{
	size_t failed = SIZE_MAX;
	CUresult result = batch_boxes(ops, n, flags, &failed, handle);

	if (result != CUDA_SUCCESS && ret_failed)
		*ret_failed = failed;
	return result;
}

ENTER_STREAM(cuMemcpy3DBatchAsync,
	(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
		CUstream stream),
	batch_boxes_telling(opList, numOps, flags, failIdx, stream))
ENTER_STREAM(cuMemcpy3DBatchAsync_v2,
	(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream stream),
	batch_boxes_telling(opList, numOps, flags, NULL, stream))
