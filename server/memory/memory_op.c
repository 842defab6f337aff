/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stream memory operations, checked and converted. The session's worker only.
 *
 * Invariant: what goes to the driver names memory of the session alone, and no
 * wait that nothing could end.
 */

#include "memory.h"
#include "memory_op.h"
#include "server/session/session.h"
#include "wire.h"

bool memory_op_key(const struct memory_op *op, uint64_t *ret_value)
{
	uint64_t all = memory_op_is_64(op) ? UINT64_MAX : UINT32_MAX;

	switch (op->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
	case CU_STREAM_WAIT_VALUE_EQ:
		*ret_value = op->value;
		return true;
	case CU_STREAM_WAIT_VALUE_AND:
		*ret_value = op->value;
		return op->value != 0;
	case CU_STREAM_WAIT_VALUE_NOR:
		*ret_value = 0;
		return op->value != all;
	default:
		return false;
	}
}

static CUresult convert_barrier(const struct memory_op *op, CUstreamBatchMemOpParams *ret_param)
{
	if (op->flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU || op->address || op->value)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_param = (CUstreamBatchMemOpParams){
		.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER, .flags = op->flags}};
	return CUDA_SUCCESS;
}

static CUresult convert_wait(const struct memory_op *op, CUstreamBatchMemOpParams *ret_param)
{
	uint64_t key;

	if (!memory_op_key(op, &key))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_param = (CUstreamBatchMemOpParams){
		.waitValue = {.address = op->address, .flags = op->flags, .value64 = op->value}};
	ret_param->operation = (CUstreamBatchMemOpType)op->operation;
	return CUDA_SUCCESS;
}

static CUresult convert_write(const struct memory_op *op, CUstreamBatchMemOpParams *ret_param)
{
	if (op->flags != CU_STREAM_WRITE_VALUE_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_param = (CUstreamBatchMemOpParams){
		.writeValue = {.address = op->address, .flags = op->flags, .value64 = op->value}};
	ret_param->operation = (CUstreamBatchMemOpType)op->operation;
	return CUDA_SUCCESS;
}

bool memory_op_is_wait(const struct memory_op *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

bool memory_op_is_64(const struct memory_op *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

uint32_t memory_op_size(const struct memory_op *op)
{
	return op->operation == CU_STREAM_MEM_OP_BARRIER ? 0 : memory_op_is_64(op) ? 8 : 4;
}

CUresult memory_op_convert(
	struct session *session, const struct memory_op *op, CUstreamBatchMemOpParams *ret_param)
{
	uint32_t size = memory_op_size(op);
	bool is_wait = memory_op_is_wait(op);

	if (op->operation == CU_STREAM_MEM_OP_BARRIER)
		return convert_barrier(op, ret_param);
	if (!is_wait && op->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
		op->operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->address % size != 0 || (size == 4 && op->value > UINT32_MAX) ||
		!memory_check(session, op->address, size))
		return CUDA_ERROR_INVALID_VALUE;
	return is_wait ? convert_wait(op, ret_param) : convert_write(op, ret_param);
}
