/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls with arguments that name nothing, and calls that have nothing to do: which of the driver's
 * errors they return, or that they succeed.
 */

#define NAME "wrong_arguments"
#include "../helpers/driver_program.h"

/* The first version. */
#undef cuDevicePrimaryCtxSetFlags
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags);

static CUcontext context;
static CUdevice device;
static CUmodule module;
static CUfunction function;
static CUdeviceptr memory;

static void of_kernels(void)
{
	size_t size, offset;
	const char *name;
	CUfunction found;
	CUmodule owner;
	int value;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&name, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetModule(&owner, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(NULL, 0, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuKernelGetAttribute(NULL, 0, NULL, device));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(NULL, 0, &offset, &size));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(NULL, 0, &offset, &size));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 0, &offset, &size));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal(NULL, NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(NULL, NULL, module, "absent"));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&found, module, "absent"));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, NULL, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuOccupancyMaxPotentialBlockSize(NULL, NULL, NULL, NULL, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(NULL, NULL, 0, 0));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 32, 0));
}

static void of_contexts(void)
{
	CUdevResource resource;
	CUmemoryPool pool;
	int value;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxDestroy(NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevResource(NULL, NULL, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuGreenCtxGetDevResource(NULL, NULL, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT,
		cuGreenCtxGetDevResource(NULL, &resource, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(context, 0));
	EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(context));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamGetCtx_v2(NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate(NULL, NULL, NULL, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags_v2(device, CU_CTX_MAP_HOST));
	EXPECT(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, cuDevicePrimaryCtxSetFlags(device, 0));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, 99, device, device));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetMemPool(&pool, 99));
	CHECK(cuDeviceGetDefaultMemPool(&pool, device));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, NULL, 0));
}

static void of_events(void)
{
	CUgraphNode node;
	CUipcEventHandle handle;
	CUevent event;
	CUgraph graph;
	float ms;

	CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	CHECK(cuEventRecord(event, NULL));
	CHECK(cuEventSynchronize(event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(NULL, event, event));
	CHECK(cuEventElapsedTime(&ms, event, event));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(&handle, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, event));
	CHECK(cuGraphCreate(&graph, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEventRecordNode(&node, graph, NULL, 0, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEventWaitNode(&node, graph, NULL, 0, NULL));
	CHECK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphEventRecordNodeSetEvent(node, NULL));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuEventDestroy(event));
}

/* Nothing is checked where nothing is asked or done. */
static void of_nothing(void)
{
	size_t size;

	CHECK(cuMemGetInfo(NULL, NULL));
	CHECK(cuMemGetInfo(&size, NULL));
	MUST(size > 0);
	CHECK(cuMemGetAddressRange(NULL, NULL, 0));
	CHECK(cuTexObjectDestroy(0));
	CHECK(cuSurfObjectDestroy(0));
	CHECK(cuTexObjectDestroy(12345));
	CHECK(cuSurfObjectDestroy(12345));
	CHECK(cuMemcpyPeer(0, NULL, 0, NULL, 0));
	CHECK(cuMemcpyAtoA(NULL, 0, NULL, 0, 0));
	CHECK(cuMemcpyDtoA(NULL, 0, 0, 0));
	CHECK(cuMemcpyAtoHAsync(NULL, NULL, 0, 0, NULL));
	/* NULL is the current context. */
	CHECK(cuMemcpyPeer(memory, NULL, memory, context, 4));
	CHECK(cuStreamBatchMemOp(NULL, 0, NULL, 0));
}

static void of_arrays(void)
{
	const CUDA_MEMCPY2D from_array = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory,
		.WidthInBytes = 4,
		.Height = 1};
	const CUDA_MEMCPY3D to_array = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = 4,
		.Height = 1,
		.Depth = 1};

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&from_array));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&to_array));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD(memory, NULL, 0, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoA(NULL, 0, memory, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoA(NULL, 0, NULL, 0, 4));
}

static void of_graphs(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}},
		.bytesize = 64};
	CUgraphNode node;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &node, &node, NULL, 1));
	CHECK(cuGraphRemoveDependencies(graph, NULL, NULL, NULL, 0));
	CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphRemoveDependencies(graph, &node, &node, NULL, 1));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphRemoveDependencies(graph, NULL, NULL, NULL, 0));
	CHECK(cuGraphDestroy(graph));
}

/* Bits that name no type of handle are ignored. */
static void of_allocations(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)0x40,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemGenericAllocationHandle handle;
	size_t unit;

	CHECK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(cuMemCreate(&handle, unit, &prop, 0));
	CHECK(cuMemRelease(handle));
}

/* A launch that says that its node is not updatable makes no node, unless it is captured. */
static void of_nodes(void)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};
	CUlaunchConfig config = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = &attribute,
		.numAttrs = 1};
	CUgraph graph;

	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, function, NULL, NULL));
	CHECK(cuStreamCreate(&config.hStream, CU_STREAM_DEFAULT));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, function, NULL, NULL));
	CHECK(cuStreamBeginCapture(config.hStream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuLaunchKernelEx(&config, function, NULL, NULL));
	CHECK(cuStreamEndCapture(config.hStream, &graph));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuStreamDestroy(config.hStream));
}

/* The default stream would have to wait for this blocking stream. */
static void of_captures(void)
{
	CUstream stream;
	CUgraph graph;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBeginCaptureToGraph(NULL, NULL, NULL, NULL, 0,
						 CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
		cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamEndCapture(NULL, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(NULL, &graph));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamCopyAttributes(NULL, NULL));
	(void)cuStreamEndCapture(stream, &graph);
	CHECK(cuStreamDestroy(stream));
}

int main(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, IMAGE_OF_NOTHING));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	CHECK(cuMemAlloc(&memory, 4096));
	of_kernels();
	of_contexts();
	of_events();
	of_nothing();
	of_arrays();
	of_graphs();
	of_allocations();
	of_nodes();
	of_captures();
	CHECK(cuMemFree(memory));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
