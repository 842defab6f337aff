/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BLOCK_STREAM_H
#define BLOCK_STREAM_H

/*
 * Blocks a stream of the harness's session: it waits for a semaphore, and the counting
 * driver's GPU never passes the wait.
 */

#include "server/schedule/blocked_streams.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

static struct cuda_api block_real;

static inline CUresult block_wait(
	CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags)
{
	(void)stream;
	(void)n;
	(void)ops;
	(void)flags;
	return CUDA_SUCCESS;
}

static inline CUresult block_write(
	CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
	(void)stream;
	(void)address;
	(void)value;
	(void)flags;
	return CUDA_SUCCESS;
}

/* Creates `stream' and blocks it. False: it is not blocked. */
static inline bool block_stream(uint32_t stream)
{
	struct memory_op op = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .value = 1};

	if (send_memory_alloc(0, 4096, &op.address) != CUDA_SUCCESS)
		return false;
	send_stream_create(stream, 0, CU_STREAM_NON_BLOCKING, 0);
	block_real = cuda;
	cuda.cuStreamBatchMemOp_v2 = block_wait;
	cuda.cuStreamWriteValue64_v2 = block_write;
	send_memory_ops(stream, &op, 1);
	harness_serve();
	return blocked_any();
}

/* The GPU works again; the stream counts as blocked until it is forgotten. */
static inline void unblock_stream(void)
{
	cuda = block_real;
}

#endif
