/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which pitches and heights of slices the copy of a box may have, for each call: a
 * value that is not 0 must fit the box, even if there is only one row or slice.
 */

#include <stdbool.h>

#define NAME "box_pitches"
#include "../helpers/driver_program.h"

#define BYTES ((size_t)1 << 20)

struct memory {
	CUdeviceptr dst, src;
	void *host;
};

static const struct shape {
	size_t dst_pitch, src_pitch, width, height, depth, dst_rows, src_rows;
	bool is_flat_right, is_right, is_node_right; /* as 2D; as 3D; as a node */
} shapes[] = {
	{0, 0, 128, 1, 1, 0, 0, true, true, true},
	{0, 0, 128, 2, 1, 0, 0, true, true, true},
	{0, 0, 128, 1, 2, 1, 1, true, true, true},
	{64, 64, 128, 1, 1, 0, 0, false, false, false},
	{64, 256, 128, 1, 1, 0, 0, false, false, false},
	{256, 64, 128, 1, 1, 0, 0, false, false, false},
	{64, 64, 128, 2, 1, 0, 0, false, false, false},
	{64, 64, 128, 1, 2, 1, 1, false, false, false},
	{256, 256, 128, 4, 1, 2, 2, true, false, false},
	{256, 256, 128, 4, 2, 2, 2, true, false, false},
	{256, 256, 128, 4, 2, 0, 0, true, true, true},
	{256, 256, 128, 1, 2, 0, 0, true, true, true},
	{256, 256, 0, 4, 1, 4, 4, true, true, false},
	{256, 256, 128, 0, 1, 4, 4, true, true, false},
	{256, 256, 128, 4, 0, 4, 4, true, true, false},
};

static CUmemorytype source_type(bool is_host)
{
	return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D flat(const struct shape *shape, const struct memory *memory, bool is_host)
{
	return (CUDA_MEMCPY2D){
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory->dst,
		.dstPitch = shape->dst_pitch,
		.srcMemoryType = source_type(is_host),
		.srcDevice = memory->src,
		.srcHost = memory->host,
		.srcPitch = shape->src_pitch,
		.WidthInBytes = shape->width,
		.Height = shape->height,
	};
}

static CUDA_MEMCPY3D solid(const struct shape *shape, const struct memory *memory, bool is_host)
{
	return (CUDA_MEMCPY3D){
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory->dst,
		.dstPitch = shape->dst_pitch,
		.dstHeight = shape->dst_rows,
		.srcMemoryType = source_type(is_host),
		.srcDevice = memory->src,
		.srcHost = memory->host,
		.srcPitch = shape->src_pitch,
		.srcHeight = shape->src_rows,
		.WidthInBytes = shape->width,
		.Height = shape->height,
		.Depth = shape->depth,
	};
}

static CUresult add_node(const CUDA_MEMCPY3D *copy, CUcontext context)
{
	CUgraph graph = NULL;
	CUgraphNode node;
	CUresult result;

	CHECK(cuGraphCreate(&graph, 0));
	result = cuGraphAddMemcpyNode(&node, graph, NULL, 0, copy, context);
	CHECK(cuGraphDestroy(graph));
	return result;
}

static CUresult wanted(bool is_right)
{
	return is_right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void run(
	const struct shape *shape, const struct memory *memory, bool is_host, CUcontext context)
{
	const CUDA_MEMCPY2D rows = flat(shape, memory, is_host);
	const CUDA_MEMCPY3D slices = solid(shape, memory, is_host);

	EXPECT(wanted(shape->is_flat_right), cuMemcpy2D(&rows));
	EXPECT(wanted(shape->is_flat_right), cuMemcpy2DAsync(&rows, NULL));
	EXPECT(wanted(shape->is_flat_right), cuMemcpy2DUnaligned(&rows));
	EXPECT(wanted(shape->is_right), cuMemcpy3D(&slices));
	EXPECT(wanted(shape->is_right), cuMemcpy3DAsync(&slices, NULL));
	EXPECT(wanted(shape->is_node_right), add_node(&slices, context));
}

int main(void)
{
	struct memory memory = {0, 0, NULL};
	CUcontext context = NULL;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory.dst, BYTES));
	CHECK(cuMemAlloc(&memory.src, BYTES));
	CHECK(cuMemHostAlloc(&memory.host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (unsigned is_host = 0; is_host < 2; is_host++)
			run(&shapes[i], &memory, is_host, context);
	CHECK(cuCtxSynchronize());
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
