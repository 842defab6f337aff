/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream memory operations: a stream writes a word, or waits for one.
 *
 * memops_run() runs in streams' threads without the driver's lock, the rest in
 * any thread under it. A wait reads its word every 100 us. It ends when the value
 * is right, the GPU has faulted or its stream is being dropped.
 */

#include <string.h>

#include "context.h"
#include "stream.h"
#include "tests/softgpu/driver/memory/memory.h"

#define POLL_US 100

#define WAIT_FLAGS (3U | CU_STREAM_WAIT_VALUE_FLUSH)

static bool is_satisfied(uint64_t word, uint64_t value, unsigned flags, bool is_64)
{
	switch (flags & 3U) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return is_64 ? (int64_t)(word - value) >= 0
			     : (int32_t)((uint32_t)word - (uint32_t)value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (word & value) != 0;
	default:
		return is_64 ? ~(word | value) != 0 : ~((uint32_t)word | (uint32_t)value) != 0;
	}
}

static bool op_is_64(const CUstreamBatchMemOpParams *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult wait_run(const CUstreamBatchMemOpParams *op, const struct stream *stream)
{
	const bool is_64 = op_is_64(op);
	const void *p = (const void *)(uintptr_t)op->waitValue.address;
	uint64_t word;

	for (;;) {
		if (!range_reaches(op->waitValue.address, is_64 ? 8 : 4, NULL))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		word = is_64 ? __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE)
			     : __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
		if (is_satisfied(word, is_64 ? op->waitValue.value64 : op->waitValue.value,
			    op->waitValue.flags, is_64))
			return CUDA_SUCCESS;
		if (atomic_load_explicit(&stream->cancelled, memory_order_relaxed))
			return CUDA_SUCCESS;
		usleep(POLL_US);
	}
}

static CUresult write_run(const CUstreamBatchMemOpParams *op)
{
	const bool is_64 = op_is_64(op);
	void *p = (void *)(uintptr_t)op->writeValue.address;

	if (!range_reaches(op->writeValue.address, is_64 ? 8 : 4, NULL))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (is_64)
		__atomic_store_n((uint64_t *)p, op->writeValue.value64, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)p, op->writeValue.value, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult memops_run(const struct memop_work *memops, const struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < memops->n_ops && result == CUDA_SUCCESS; i++) {
		switch (memops->ops[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			result = wait_run(&memops->ops[i], stream);
			if (atomic_load_explicit(&stream->cancelled, memory_order_relaxed))
				return result;
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			result = write_run(&memops->ops[i]);
			break;
		default: /* a barrier: one thread does them in order anyway */
			break;
		}
	}
	return result;
}

static CUresult op_check(const CUstreamBatchMemOpParams *op)
{
	const size_t size = op_is_64(op) ? 8 : 4;

	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (op->waitValue.flags & ~WAIT_FLAGS)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		if (op->writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
		return op->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Both unions begin with operation and address. */
	if (op->waitValue.address % size != 0 || !range_reaches(op->waitValue.address, size, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult memops_new(const CUstreamBatchMemOpParams *ops, uint32_t n, struct work *ret_work)
{
	struct work work = {.kind = WORK_MEMOPS, .memops.n_ops = n};
	CUresult result;

	for (uint32_t i = 0; i < n; i++) {
		result = op_check(&ops[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	work.memops.ops = malloc(n * sizeof(*ops));
	if (!work.memops.ops)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(work.memops.ops, ops, n * sizeof(*ops));
	*ret_work = work;
	return CUDA_SUCCESS;
}

static CUresult batch(
	CUstream handle, unsigned n, const CUstreamBatchMemOpParams *ops, unsigned flags)
{
	struct stream *stream;
	struct work work;
	CUresult result;

	if (n > MEMOPS_MAX || (n > 0 && !ops) || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_get(handle, &stream);
	if (result != CUDA_SUCCESS || n == 0)
		return result;
	result = memops_new(ops, n, &work);
	return result == CUDA_SUCCESS ? stream_push(stream, &work) : result;
}

static CUresult wait_value(
	CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags, bool is_64)
{
	CUstreamBatchMemOpParams op = {.waitValue = {.address = address, .flags = flags}};

	op.operation = is_64 ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
	if (is_64)
		op.waitValue.value64 = value;
	else
		op.waitValue.value = (cuuint32_t)value;
	return batch(handle, 1, &op, 0);
}

static CUresult write_value(
	CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags, bool is_64)
{
	CUstreamBatchMemOpParams op = {.writeValue = {.address = address, .flags = flags}};

	op.operation = is_64 ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
	if (is_64)
		op.writeValue.value64 = value;
	else
		op.writeValue.value = (cuuint32_t)value;
	return batch(handle, 1, &op, 0);
}

ENTER_STREAM(cuStreamWaitValue32_v2,
	(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
	wait_value(stream, address, value, flags, false))
ENTER_STREAM(cuStreamWaitValue64_v2,
	(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
	wait_value(stream, address, value, flags, true))
ENTER_STREAM(cuStreamWriteValue32_v2,
	(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
	write_value(stream, address, value, flags, false))
ENTER_STREAM(cuStreamWriteValue64_v2,
	(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
	write_value(stream, address, value, flags, true))
ENTER_STREAM(cuStreamBatchMemOp_v2,
	(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
	batch(stream, n, ops, flags))
