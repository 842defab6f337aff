/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stream memory operations: a stream writes a semaphore in device memory, or waits
 * for one. Any thread of the application.
 *
 * Invariant: each operation names a semaphore in this process's memory, and each
 * wait can be ended by writing the semaphore, which the server does after this
 * process has ended.
 */

#include "memory_op.h"

#include "calls_memory.h"
#include "memory.h"
#include "client/stream/recorder.h"
#include "client/stream/stream.h"
#include "send_memory.h"

static CUresult check_address(uint64_t address, uint32_t size)
{
	return address % size == 0 && memory_contains(address, size) ? CUDA_SUCCESS
								     : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_wait(const struct memory_op *op, bool is_64)
{
	uint64_t all = is_64 ? UINT64_MAX : UINT32_MAX;

	if (op->flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return CUDA_ERROR_NOT_SUPPORTED; /* reported by CAN_FLUSH_REMOTE_WRITES */
	if (op->flags > CU_STREAM_WAIT_VALUE_NOR)
		return CUDA_ERROR_INVALID_VALUE;
	/* No value of the semaphore ends these waits. */
	if ((op->flags == CU_STREAM_WAIT_VALUE_AND && op->value == 0) ||
		(op->flags == CU_STREAM_WAIT_VALUE_NOR && op->value == all))
		return CUDA_ERROR_INVALID_VALUE;
	return check_address(op->address, is_64 ? 8 : 4);
}

static CUresult check_write(const struct memory_op *op, bool is_64)
{
	/* Driver 580 also requires the barrier. */
	if (op->flags != CU_STREAM_WRITE_VALUE_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	return check_address(op->address, is_64 ? 8 : 4);
}

CUresult memory_op_check(const struct memory_op *op)
{
	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return check_wait(op, false);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return check_wait(op, true);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return check_write(op, false);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return check_write(op, true);
	case CU_STREAM_MEM_OP_BARRIER:
		return op->flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
								      : CUDA_ERROR_INVALID_VALUE;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult memory_ops_post(CUstream handle, const struct memory_op *ops, uint32_t n_ops)
{
	struct context *context;
	struct stream *stream = NULL;
	bool captures = false;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context, handle, &stream);
	for (uint32_t i = 0; i < n_ops && result == CUDA_SUCCESS; i++)
		result = memory_op_check(&ops[i]);
	/* Driver 580 accepts an empty batch. */
	if (result != CUDA_SUCCESS || n_ops == 0)
		return result;
	result = recorder_look(stream, &captures);
	if (unlikely(captures))
		return recorder.memory_ops(stream, ops, n_ops);
	if (result != CUDA_SUCCESS)
		return result;
	result = send_memory_ops(stream_id(stream), ops, n_ops);
	if (result == CUDA_SUCCESS) {
		stream_issued(stream);
		stream_awaits_host(stream);
	}
	return result;
}

struct memory_op memory_op_of(const CUstreamBatchMemOpParams *param)
{
	struct memory_op op = {.operation = param->operation};

	switch (param->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		op.address = param->waitValue.address;
		op.value = param->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64
				   ? param->waitValue.value64
				   : param->waitValue.value;
		op.flags = param->waitValue.flags;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		op.address = param->writeValue.address;
		op.value = param->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64
				   ? param->writeValue.value64
				   : param->writeValue.value;
		op.flags = param->writeValue.flags;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
		op.flags = param->memoryBarrier.flags;
		break;
	default:
		break;
	}
	return op;
}

CUresult local_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	struct memory_op ops[WIRE_MEMORY_OPS_MAX];

	for (unsigned i = 0; i < count; i++)
		ops[i] = memory_op_of(&paramArray[i]);
	return memory_ops_post(stream, ops, count);
}
