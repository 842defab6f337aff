/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stream memory operations: checked, converted and put on their streams. The session's
 * worker only.
 *
 * Invariant: an operation passed to the driver names only memory of the session, and every
 * wait has a value that ends it.
 */

#include "memory_op.h"

#include "alias.h"
#include "host.h"
#include "lock.h"
#include "wire.h"
#include "server/session/session.h"
#include "server/schedule/blocked_streams.h"
#include "server/stream/pending_wait.h"
#include "server/stream/stream.h"
#include "do_memory.h"

bool memory_op_release_value(const struct memory_op *op, uint64_t *ret_value)
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

bool memory_op_is_wait(const struct memory_op *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

uint32_t memory_ops_count_waits(const struct memory_op *ops, uint32_t n_ops)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_ops; i++)
		n += memory_op_is_wait(&ops[i]);
	return n;
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
	uint64_t value;

	if (op->operation == CU_STREAM_MEM_OP_BARRIER)
		return convert_barrier(op, ret_param);
	if (!is_wait && op->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
		op->operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->address % size != 0 || (size == 4 && op->value > UINT32_MAX) ||
		!memory_check(session, op->address, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_wait ? !memory_op_release_value(op, &value)
		    : op->flags != CU_STREAM_WRITE_VALUE_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	/* A write has its members in the same places. */
	*ret_param = (CUstreamBatchMemOpParams){
		.waitValue = {.address = op->address, .flags = op->flags, .value64 = op->value}};
	ret_param->operation = (CUstreamBatchMemOpType)op->operation;
	return CUDA_SUCCESS;
}

static struct pending_wait pending_wait_of(
	struct session *session, struct stream *stream, const struct memory_op *op)
{
	uint32_t size = memory_op_size(op);
	struct pending_wait pending_wait = {
		.serial = session->pending_waits->last_serial + 1,
		.address = op->address,
		.sdev = stream->sdev,
		.stream = stream->id,
		.is_64 = memory_op_is_64(op),
		.is_host = host_has(session, op->address, size) ||
			   alias_has(session, op->address, size),
	};

	memory_op_release_value(op, &pending_wait.value);
	return pending_wait;
}

/*
 * After each wait the GPU notes that it is passed. So an operation takes up to 2 `params'.
 */
static CUresult convert_all(struct session *session, struct stream *stream,
	const struct memory_op *ops, uint32_t n_ops, CUstreamBatchMemOpParams *params,
	uint32_t *ret_n_params)
{
	struct pending_waits *pending_waits = session->pending_waits;
	uint32_t n_params = 0, n_before = pending_waits->n;
	CUresult result = CUDA_SUCCESS;

	lock_take(&session->pending_waits_lock);
	for (uint32_t i = 0; i < n_ops && result == CUDA_SUCCESS; i++) {
		result = memory_op_convert(session, &ops[i], &params[n_params++]);
		if (result != CUDA_SUCCESS || !memory_op_is_wait(&ops[i]))
			continue;
		pending_waits->list[pending_waits->n++] = pending_wait_of(session, stream, &ops[i]);
		params[n_params++] =
			pending_waits_passed_op(session, stream, ++pending_waits->last_serial);
	}
	if (result != CUDA_SUCCESS)
		pending_waits->n = n_before;
	lock_release(&session->pending_waits_lock);
	*ret_n_params = n_params;
	return result;
}

static CUresult put_all(struct session *session, struct stream *stream, const struct memory_op *ops,
	uint32_t n_ops, CUstream real)
{
	CUstreamBatchMemOpParams params[2 * WIRE_MEMORY_OPS_MAX];
	uint32_t n_params = 0, n;
	CUresult result = convert_all(session, stream, ops, n_ops, params, &n_params);

	if (result == CUDA_SUCCESS && n_params > n_ops)
		pending_waits_note_new(session);
	for (uint32_t i = 0; i < n_params && result == CUDA_SUCCESS; i += n) {
		n = MIN(n_params - i, WIRE_MEMORY_OPS_MAX);
		result = cuda.cuStreamBatchMemOp_v2(real, n, &params[i], 0);
	}
	return result;
}

static CUresult put_waits(struct session *session, struct stream *stream,
	const struct memory_op *ops, uint32_t n_ops, uint32_t n_waits, CUstream real)
{
	bool is_new = !blocked_contains(session, stream->id);
	uint64_t serial = session->pending_waits->last_serial + n_waits;
	CUresult result;

	if (!blocked_begin(session, stream, serial))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	blocked_place(stream, is_new);
	result = put_all(session, stream, ops, n_ops, real);
	/* Some operations may be queued, and the stream may have been blocked before. */
	if (unlikely(result != CUDA_SUCCESS)) {
		session->pending_waits->last_serial = serial;
		pending_waits_note_passed(session, stream, real);
	}
	blocked_placed();
	return result;
}

CUresult do_memory_ops(
	struct session *session, struct stream *stream, const struct memory_op *ops, uint32_t n_ops)
{
	uint32_t n_waits = memory_ops_count_waits(ops, n_ops);
	CUstream real;
	CUresult result = pending_waits_reserve(session, n_ops);

	if (result == CUDA_SUCCESS)
		result = stream_begin(session, stream, &real);
	if (result != CUDA_SUCCESS)
		return result;
	if (n_waits > 0)
		return put_waits(session, stream, ops, n_ops, n_waits, real);
	blocked_evade_write(session, stream);
	return put_all(session, stream, ops, n_ops, real);
}
