/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Batches of copies of the driver API: linear memory of every kind, with each order in
 * which the source may be read, and boxes with arrays at either end.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "copy_batches"
#include "../helpers/driver_program.h"

enum {
	SIZE = 1 << 20,
	PIECES = 64,
	PIECE = SIZE / PIECES,
	WIDTH = 60, /* elements of a row of a box */
	HEIGHT = 17,
	DEPTH = 5,
};

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
}

static CUdeviceptr at(const void *host)
{
	return (CUdeviceptr)(uintptr_t)host;
}

/* Pieces of host memory to the device in reverse, each with one of three orders, and back. */
static void linear(uint8_t *from, uint8_t *to, CUdeviceptr device, CUstream stream)
{
	CUmemcpyAttributes attrs[3] = {
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
			.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE},
	};
	size_t first[3] = {0, PIECES / 4, PIECES / 2}, sizes[PIECES], zero = 0;
	CUdeviceptr dsts[PIECES], srcs[PIECES];

	fill(from, SIZE, 1);
	memset(to, 0, SIZE);
	for (size_t i = 0; i < PIECES; i++) {
		dsts[i] = device + (PIECES - 1 - i) * PIECE;
		srcs[i] = at(from + i * PIECE);
		sizes[i] = PIECE;
	}
	CHECK(cuMemcpyBatchAsync(dsts, srcs, sizes, PIECES, attrs, first, 3, stream));
	CHECK(cuStreamSynchronize(stream));
	for (size_t i = 0; i < PIECES; i++) {
		srcs[i] = dsts[i];
		dsts[i] = at(to + i * PIECE);
	}
	CHECK(cuMemcpyBatchAsync(dsts, srcs, sizes, PIECES, attrs, &zero, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(memcmp(from, to, SIZE) == 0, "a batch there and back");
}

/* A source that is freed after the call, and a source that the stream writes before the copy. */
static void orders(uint8_t *pinned, CUdeviceptr device, CUstream stream)
{
	CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
	CUdeviceptr dst = device, src = at(pinned);
	size_t size = SIZE, zero = 0;
	uint8_t back[2];

	memset(pinned, 0x5a, SIZE);
	CHECK(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &zero, 1, stream));
	memset(pinned, 0, SIZE);
	CHECK(cuMemcpyDtoHAsync(back, device, 1, stream));
	CHECK(cuMemcpyDtoHAsync(back + 1, device + SIZE - 1, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(back[0] == 0x5a && back[1] == 0x5a, "a source is read during the call");

	attrs.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	CHECK(cuMemsetD8Async(device, 0x77, SIZE, stream));
	CHECK(cuMemcpyDtoHAsync(pinned, device, SIZE, stream));
	CHECK(cuMemsetD8Async(device, 0, SIZE, stream));
	CHECK(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attrs, &zero, 1, stream));
	CHECK(cuMemcpyDtoHAsync(back, device + SIZE / 2, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(back[0] == 0x77, "a source is read in the stream's order");
}

static CUDA_MEMCPY3D_BATCH_OP box(void)
{
	CUDA_MEMCPY3D_BATCH_OP op;

	memset(&op, 0, sizeof(op));
	op.extent.width = WIDTH;
	op.extent.height = HEIGHT;
	op.extent.depth = DEPTH;
	op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	return op;
}

static CUmemcpy3DOperand pointer(CUdeviceptr address, size_t row, size_t layer)
{
	CUmemcpy3DOperand operand;

	memset(&operand, 0, sizeof(operand));
	operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	operand.op.ptr.ptr = address;
	operand.op.ptr.rowLength = row;
	operand.op.ptr.layerHeight = layer;
	return operand;
}

static CUmemcpy3DOperand place(CUarray array, size_t x, size_t y, size_t z)
{
	CUmemcpy3DOperand operand;

	memset(&operand, 0, sizeof(operand));
	operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	operand.op.array.array = array;
	operand.op.array.offset.x = x;
	operand.op.array.offset.y = y;
	operand.op.array.offset.z = z;
	return operand;
}

/* A box of words through pitched memory on the device, an array and another array. */
static void boxes(uint32_t *from, uint32_t *to, CUdeviceptr device, CUstream stream)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = WIDTH + 4,
		.Height = HEIGHT + 2,
		.Depth = DEPTH + 1,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32,
		.NumChannels = 1};
	enum {
		WORDS = WIDTH * HEIGHT * DEPTH
	};
	CUDA_MEMCPY3D_BATCH_OP ops[2];
	CUarray a, b;

	CHECK(cuArray3DCreate(&a, &desc));
	CHECK(cuArray3DCreate(&b, &desc));
	fill((uint8_t *)from, 4ul * WORDS, 2);
	memset(to, 0, 8ul * WORDS);
	/* Memory to array, counted in the array's elements; beside it memory to memory, in bytes.
	 */
	ops[0] = ops[1] = box();
	ops[0].src = pointer(at(from), 0, 0);
	ops[0].dst = place(a, 3, 2, 1);
	ops[1].extent.width = 4ul * WIDTH;
	ops[1].src = pointer(at(from), 0, 0);
	ops[1].dst = pointer(device, 4ul * WIDTH + 16, HEIGHT + 3);
	CHECK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
	ops[0] = box();
	ops[0].src = place(a, 3, 2, 1);
	ops[0].dst = place(b, 1, 0, 0);
	CHECK(cuMemcpy3DBatchAsync(1, ops, 0, stream));
	ops[0] = ops[1] = box();
	ops[0].src = place(b, 1, 0, 0);
	ops[0].dst = pointer(at(to), 0, 0);
	ops[1].extent.width = 4ul * WIDTH;
	ops[1].src = pointer(device, 4ul * WIDTH + 16, HEIGHT + 3);
	ops[1].dst = pointer(at(to + WORDS), 4ul * WIDTH, HEIGHT);
	CHECK(cuMemcpy3DBatchAsync(2, ops, 0, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(memcmp(from, to, 4ul * WORDS) == 0, "a box through two arrays");
	expect(memcmp(from, to + WORDS, 4ul * WORDS) == 0, "a box through rows with gaps");
	CHECK(cuArrayDestroy(a));
	CHECK(cuArrayDestroy(b));
}

static void errors(uint8_t *pinned, CUdeviceptr device, CUstream stream)
{
	CUmemcpyAttributes attrs[2] = {
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
	};
	CUdeviceptr dsts[2] = {device, device + 64}, srcs[2] = {at(pinned), at(pinned) + 64};
	size_t sizes[2] = {64, 64}, first[2] = {0, 1};
	CUDA_MEMCPY3D_BATCH_OP op = box();

	first[0] = 1;
	expect(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, first, 1, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"attributes begin at the first copy");
	first[0] = 0;
	sizes[1] = 0;
	expect(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, first, 1, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"a copy has a size");
	sizes[1] = 64;
	expect(cuMemcpyBatchAsync(dsts, srcs, sizes, 1, attrs, first, 2, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"there are no more attributes than copies");
	attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	expect(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, first, 2, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"each copy has an order");
	op.src = pointer(at(pinned), 0, 0);
	op.dst = pointer(device, 0, 0);
	expect(cuMemcpy3DBatchAsync(1, &op, 1, stream) == CUDA_ERROR_INVALID_VALUE,
		"there are no flags of a batch of boxes");
	op.extent.depth = 0;
	expect(cuMemcpy3DBatchAsync(1, &op, 0, stream) == CUDA_ERROR_INVALID_VALUE,
		"a box has a depth");
	op.extent.depth = 1;
	op.dst.op.ptr.rowLength = WIDTH - 1;
	expect(cuMemcpy3DBatchAsync(1, &op, 0, stream) == CUDA_ERROR_INVALID_VALUE,
		"a row is as long as the box is wide");
	CHECK(cuStreamSynchronize(stream));
}

/* A capture refuses a batch, and remains valid. */
static void captured(uint8_t *pinned, CUdeviceptr device, CUstream stream)
{
	CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dsts[2] = {device, device + 64}, srcs[2] = {at(pinned), at(pinned) + 64};
	size_t sizes[2] = {64, 64}, zero = 0, n = 0;
	CUgraph graph = NULL;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attrs, &zero, 1, stream) ==
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"a batch is not captured");
	CHECK(cuMemcpyAsync(dsts[0], srcs[0], 64, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	expect(n == 1, "the capture went on");
	CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr memory = 0, managed = 0;
	CUstream stream = NULL;
	uint8_t *pinned = NULL, *plain = malloc(2ul * SIZE);

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, SIZE));
	CHECK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
	CHECK(cuMemHostAlloc((void **)&pinned, 2ul * SIZE, 0));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	linear(plain, plain + SIZE, memory, stream);
	linear(pinned, pinned + SIZE, memory, stream);
	linear(plain, pinned, managed, stream);
	orders(pinned, memory, stream);
	boxes((uint32_t *)plain, (uint32_t *)(plain + SIZE), memory, stream);
	boxes((uint32_t *)pinned, (uint32_t *)(pinned + SIZE), memory, stream);
	errors(pinned, memory, stream);
	captured(pinned, memory, stream);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuMemFree(managed));
	CHECK(cuMemFree(memory));
	CHECK(cuDevicePrimaryCtxRelease(device));
	free(plain);
	printf(NAME ": ok\n");
	return 0;
}
