/* SPDX-License-Identifier: Apache-2.0 */

/*
 * By how much a process grows with each object of the driver that it creates and
 * destroys: host and GPU memory, natively. What the driver leaks, a server leaks too,
 * unless it keeps such objects for reuse.
 *
 *   driver_growth [ROUNDS]
 *
 * Prints `NAME host=KIB gpu=KIB' of a round for each object.
 *
 * Runs: for a test of its own
 */

#define _GNU_SOURCE
#define NAME "driver_growth"
#include <string.h>
#include <sys/mman.h>

#include "../helpers/driver_program.h"
#include "../helpers/own_memory.h"

#define MIB ((size_t)1 << 20)
#define LONG_GRAPH 400
#define BUSY 100

static const char ptx[] = IMAGE_OF_NOTHING;
static const char unlinkable[] = ".version 7.0\n"
				 ".target sm_75\n"
				 ".address_size 64\n"
				 ".extern .func nowhere ();\n"
				 ".visible .entry nothing()\n"
				 "{\n"
				 "	call.uni nowhere, ();\n"
				 "	ret;\n"
				 "}\n";

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUfunction function;
static CUdeviceptr memory;
static void *pages;

static long gpu_kib(void)
{
	size_t available, total;

	CHECK(cuMemGetInfo(&available, &total));
	return (long)((total - available) >> 10);
}

static void make_stream(void)
{
	CUstream other;

	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
	CHECK(cuStreamSynchronize(other));
	CHECK(cuStreamDestroy(other));
}

static void make_event(void)
{
	CUevent event;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
	CHECK(cuEventRecord(event, stream));
	CHECK(cuEventSynchronize(event));
	CHECK(cuEventDestroy(event));
}

static void load_library(void)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction own;

	CHECK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	CHECK(cuKernelGetFunction(&own, kernel));
	CHECK(cuLaunchKernel(own, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuLibraryUnload(library));
}

static void link_image(void)
{
	CHECK(link_text(ptx, sizeof(ptx)));
}

/* The code of a function that does not exist. */
static void fail_to_link(void)
{
	MUST(link_text(unlinkable, sizeof(unlinkable)) != CUDA_SUCCESS);
}

static void allocate(void)
{
	CUdeviceptr block;

	CHECK(cuMemAlloc(&block, 4 * MIB));
	CHECK(cuMemFree(block));
}

static void map_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
	CHECK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
	CHECK(cuMemMap(address, 64 * MIB, 0, handle, 0));
	CHECK(cuMemSetAccess(address, 64 * MIB, &access, 1));
	CHECK(cuMemUnmap(address, 64 * MIB));
	CHECK(cuMemRelease(handle));
	CHECK(cuMemAddressFree(address, 64 * MIB));
}

static void pin(void)
{
	CHECK(cuMemHostRegister(pages, 16 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(cuMemHostUnregister(pages));
}

static void run_graph(CUgraph graph)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void make_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNode node;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	run_graph(graph);
}

static void make_long_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNode node;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < LONG_GRAPH; i++)
		CHECK(cuGraphAddKernelNode(&node, graph, &node, i > 0, &params));
	run_graph(graph);
}

/* Copies of both directions and a fill, on branches. */
static void make_wide_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUDA_MEMSET_NODE_PARAMS fill = {.dst = memory, .elementSize = 1, .width = 64, .height = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = pages,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory + MIB,
		.WidthInBytes = 20000,
		.Height = 1,
		.Depth = 1};
	CUgraphNode first, nodes[3], last;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&first, graph, NULL, 0, &params));
	CHECK(cuGraphAddMemsetNode(&nodes[0], graph, &first, 1, &fill, context));
	CHECK(cuGraphAddMemcpyNode(&nodes[1], graph, &first, 1, &copy, context));
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = memory + 2 * MIB;
	CHECK(cuGraphAddMemcpyNode(&nodes[2], graph, &first, 1, &copy, context));
	CHECK(cuGraphAddKernelNode(&last, graph, nodes, 3, &params));
	run_graph(graph);
}

/* A word is written in the middle of a chain. */
static void make_graph_of_ops(void)
{
	CUstreamBatchMemOpParams write = {.writeValue = {
						  .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
						  .address = memory,
						  .value64 = 1,
					  }};
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {.ctx = context, .count = 1, .paramArray = &write};
	CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNode first, middle, last;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&first, graph, NULL, 0, &params));
	CHECK(cuGraphAddBatchMemOpNode(&middle, graph, &first, 1, &ops));
	CHECK(cuGraphAddKernelNode(&last, graph, &middle, 1, &params));
	run_graph(graph);
}

static void make_graph_of_events(void)
{
	CUgraphNode first, last;
	CUgraph graph;
	CUevent event;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEventRecordNode(&first, graph, NULL, 0, event));
	CHECK(cuGraphAddEventWaitNode(&last, graph, &first, 1, event));
	run_graph(graph);
	CHECK(cuEventDestroy(event));
}

/* Launched again while it runs, on two streams, and changed. */
static void make_busy_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNode first, last;
	CUgraphExec exec;
	CUstream other;
	CUgraph graph;

	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&first, graph, NULL, 0, &params));
	CHECK(cuGraphAddKernelNode(&last, graph, &first, 1, &params));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphUpload(exec, stream));
	for (int i = 0; i < BUSY; i++) {
		CHECK(cuGraphExecKernelNodeSetParams(exec, last, &params));
		CHECK(cuGraphLaunch(exec, i % 2 ? stream : other));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuStreamSynchronize(other));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuStreamDestroy(other));
}

static void make_array(void)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {256, 256, CU_AD_FORMAT_FLOAT, 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampler = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUtexObject texture;

	CHECK(cuArrayCreate(&resource.res.array.hArray, &shape));
	CHECK(cuTexObjectCreate(&texture, &resource, &sampler, NULL));
	CHECK(cuTexObjectDestroy(texture));
	CHECK(cuArrayDestroy(resource.res.array.hArray));
}

static void make_green(void)
{
	CUdevResourceDesc description;
	CUdevResource all;
	CUgreenCtx green;

	CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevResourceGenerateDesc(&description, &all, 1));
	CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(cuGreenCtxDestroy(green));
}

static const struct {
	const char *name;
	void (*make)(void);
} things[] = {
	{"nothing", NULL},
	{"stream", make_stream},
	{"event", make_event},
	{"library", load_library},
	{"link", link_image},
	{"failed_link", fail_to_link},
	{"allocation", allocate},
	{"mapping", map_memory},
	{"pinned", pin},
	{"graph", make_graph},
	{"long_graph", make_long_graph},
	{"wide_graph", make_wide_graph},
	{"ops_graph", make_graph_of_ops},
	{"event_graph", make_graph_of_events},
	{"busy_graph", make_busy_graph},
	{"array", make_array},
	{"green", make_green},
};

static void setup(void)
{
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	pages = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(pages != MAP_FAILED);
	CHECK(cuMemAlloc(&memory, 4 * MIB));
	memset(pages, 1, 16 * MIB);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 200;

	setup();
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
		long host, gpu;

		/* One-time allocations do not count. */
		for (long round = 0; round < rounds / 4 && things[i].make; round++)
			things[i].make();
		host = own_memory_kib();
		gpu = gpu_kib();
		for (long round = 0; round < rounds && things[i].make; round++)
			things[i].make();
		printf("%s host=%.2f gpu=%.2f\n", things[i].name,
			(double)(own_memory_kib() - host) / (double)rounds,
			(double)(gpu_kib() - gpu) / (double)rounds);
		fflush(stdout);
	}
	printf(NAME ": ok\n");
	return 0;
}
