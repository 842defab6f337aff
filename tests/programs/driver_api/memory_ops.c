/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stream memory operations of the driver API: words that streams write and wait for,
 * alone and in batches, with every comparison.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME "memory_ops"
#include "../helpers/driver_program.h"

static uint64_t word_at(CUdeviceptr address, CUstream stream)
{
	uint64_t value = 0;

	CHECK(cuMemcpyDtoHAsync(&value, address, sizeof(value), stream));
	CHECK(cuStreamSynchronize(stream));
	return value;
}

static void writes(CUdeviceptr words, CUstream stream)
{
	CHECK(cuMemsetD8Async(words, 0, 64, stream));
	CHECK(cuStreamWriteValue32(stream, words, 0x11223344, 0));
	CHECK(cuStreamWriteValue32(stream, words + 4, 0x55667788, 0));
	CHECK(cuStreamWriteValue64(stream, words + 8, UINT64_MAX - 1, 0));
	expect(word_at(words, stream) == 0x5566778811223344ull, "two words of 32 bits");
	expect(word_at(words + 8, stream) == UINT64_MAX - 1, "a word of 64 bits");
}

/* With `first' the wait of `is_64' and `kind' for `value' stays blocked, `then' ends it. */
static void wait_kind(CUdeviceptr words, CUstream a, CUstream b, int is_64, unsigned kind,
	uint64_t value, uint64_t first, uint64_t then)
{
	CHECK(cuStreamWriteValue64(a, words, first, 0));
	CHECK(cuStreamWriteValue64(a, words + 8, 0, 0));
	CHECK(cuStreamSynchronize(a));
	if (is_64)
		CHECK(cuStreamWaitValue64(a, words, value, kind));
	else
		CHECK(cuStreamWaitValue32(a, words, (uint32_t)value, kind));
	CHECK(cuStreamWriteValue64(a, words + 8, 1, 0));
	usleep(3000);
	expect(cuStreamQuery(a) == CUDA_ERROR_NOT_READY, "a stream waits");
	expect(word_at(words + 8, b) == 0, "what comes after waits too");
	if (is_64)
		CHECK(cuStreamWriteValue64(b, words, then, 0));
	else
		CHECK(cuStreamWriteValue32(b, words, (uint32_t)then, 0));
	CHECK(cuStreamSynchronize(a));
	expect(word_at(words + 8, b) == 1, "the stream goes on");
}

static void waits(CUdeviceptr words, CUstream a, CUstream b)
{
	for (int is_64 = 0; is_64 < 2; is_64++) {
		uint64_t all = is_64 ? UINT64_MAX : UINT32_MAX;

		wait_kind(words, a, b, is_64, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6);
		wait_kind(words, a, b, is_64, CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5);
		wait_kind(words, a, b, is_64, CU_STREAM_WAIT_VALUE_AND, 6, 9, 2);
		wait_kind(words, a, b, is_64, CU_STREAM_WAIT_VALUE_NOR, 1, all - 1, 8);
	}
}

/* Two streams take turns with a word each; 60 waits per batch, each followed by a write. */
static void batches(CUdeviceptr words, CUstream a, CUstream b)
{
	enum {
		TURNS = 60
	};
	CUstreamBatchMemOpParams ops[2][2 * TURNS] = {0};

	/* Otherwise it may run after the first turns: neither stream waits for the NULL stream. */
	CHECK(cuMemsetD8Async(words, 0, 64, a));
	CHECK(cuStreamSynchronize(a));
	for (unsigned i = 0; i < TURNS; i++)
		for (unsigned side = 0; side < 2; side++) {
			CUstreamBatchMemOpParams *op = &ops[side][2 * (size_t)i];

			op[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
			op[0].waitValue.address = words + 4ull * side;
			op[0].waitValue.value = side ? i + 1 : i;
			op[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
			op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
			op[1].writeValue.address = words + 4ull * !side;
			op[1].writeValue.value = i + 1;
		}
	CHECK(cuStreamBatchMemOp(a, 2 * TURNS, ops[0], 0));
	CHECK(cuStreamBatchMemOp(b, 2 * TURNS, ops[1], 0));
	CHECK(cuStreamSynchronize(a));
	CHECK(cuStreamSynchronize(b));
	expect(word_at(words, a) == ((uint64_t)TURNS << 32 | TURNS), "they took turns");
}

static void errors(CUdeviceptr words, CUstream stream)
{
	CUstreamBatchMemOpParams op = {0};

	expect(cuStreamWriteValue32(stream, words + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE,
		"a word lies at its size");
	expect(cuStreamWriteValue64(stream, 0x1000, 1, 0) == CUDA_ERROR_INVALID_VALUE,
		"a word is memory of ours");
	expect(cuStreamWaitValue32(stream, words, 1, 0x100) == CUDA_ERROR_INVALID_VALUE,
		"flags are known");
	expect(cuStreamBatchMemOp(stream, 0, &op, 0) == CUDA_SUCCESS, "a batch may be empty");
	expect(cuStreamBatchMemOp(stream, 256, &op, 0) == CUDA_ERROR_INVALID_VALUE,
		"a batch has less than 256");
	op.operation = (CUstreamBatchMemOpType)77;
	expect(cuStreamBatchMemOp(stream, 1, &op, 0) == CUDA_ERROR_INVALID_VALUE,
		"an operation is known");
	CHECK(cuStreamSynchronize(stream));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr words = 0;
	CUstream a = NULL, b = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&words, 64));
	CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	writes(words, a);
	waits(words, a, b);
	batches(words, a, b);
	errors(words, a);
	CHECK(cuStreamDestroy(a));
	CHECK(cuStreamDestroy(b));
	CHECK(cuMemFree(words));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
