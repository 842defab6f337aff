/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BLOCK_STREAM_H
#define BLOCK_STREAM_H

/*
 * A stream of the harness's session that waits for a word, on a GPU of the
 * counting driver that never gets there.
 */

#include "server/driver/blocked_streams.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

static struct cuda_api stand_still_real;

static inline CUresult stand_still_put(
	CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags)
{
	(void)stream;
	(void)n;
	(void)ops;
	(void)flags;
	return CUDA_SUCCESS;
}

static inline CUresult stand_still_write(
	CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
	(void)stream;
	(void)address;
	(void)value;
	(void)flags;
	return CUDA_SUCCESS;
}

/* `stream' is made for it. False: it does not. */
static inline bool block_stream(uint32_t stream)
{
	struct memory_op op = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .value = 1};

	if (send_memory_alloc(0, 4096, &op.address) != CUDA_SUCCESS)
		return false;
	send_stream_create(stream, 0, CU_STREAM_NON_BLOCKING, 0);
	stand_still_real = cuda;
	cuda.cuStreamBatchMemOp_v2 = stand_still_put;
	cuda.cuStreamWriteValue64_v2 = stand_still_write;
	send_memory_ops(stream, &op, 1);
	harness_serve();
	return blocked_any();
}

/* The GPU does what it is asked for again; it counts as standing until it is forgotten. */
static inline void unblock_stream(void)
{
	cuda = stand_still_real;
}

#endif
