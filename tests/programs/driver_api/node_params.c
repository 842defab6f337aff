/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The parameters of graph nodes, read back through the driver API: of nodes that were added,
 * captured, changed and cloned; with the handles of their kernels, and the edges between
 * them.
 */

#define NAME "node_params"
#include <stddef.h>

#include "../helpers/graph_driver.h"

#define N_EDGES 3

static CUlibrary library;
static CUkernel kernel; /* `mad' of the library */
static CUfunction function;
static void *pinned;

static CUgraph capture(CUresult (*work)(void))
{
	CUgraph graph = NULL;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(work());
	CHECK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static CUgraphNode only_node(CUgraph graph)
{
	CUgraphNode node = NULL;
	size_t n = 2;

	CHECK(cuGraphGetNodes(graph, &node, &(size_t){1}));
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 1);
	return node;
}

static CUgraphNode clone_of(CUgraphNode node, CUgraph graph)
{
	CUgraphNode found = NULL, lost = NULL;
	CUgraph clone = NULL;

	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphNodeFindInClone(&found, node, clone));
	MUST(found && found != node);
	/* A call that fails may change its result (docs/compat/devices.md). */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&lost, node, graph));
	return found;
}

/* All handles of the kernel come back, whichever were passed. */
static void check_kernel(CUgraphNode node, CUfunction wanted, CUkernel wanted_kernel)
{
	CUDA_KERNEL_NODE_PARAMS params;

	memset(&params, 0xff, sizeof(params));
	CHECK(cuGraphKernelNodeGetParams(node, &params));
	MUST(params.func == wanted && params.kern == wanted_kernel && params.ctx == context);
	MUST(params.gridDimX == 3 && params.gridDimY == 2 && params.gridDimZ == 1);
	MUST(params.blockDimX == 32 && params.blockDimY == 2 && params.blockDimZ == 1);
	MUST(params.sharedMemBytes == 16 && params.kernelParams && !params.extra);
	MUST(*(CUdeviceptr *)params.kernelParams[0] == data);
	MUST(*(unsigned *)params.kernelParams[1] == COUNT);
	MUST(*(unsigned *)params.kernelParams[2] == 3 && *(unsigned *)params.kernelParams[3] == 4);
}

static struct mad_args args = {.count = COUNT, .times = 3, .add = 4};

static CUDA_KERNEL_NODE_PARAMS kernel_params(CUfunction of_function, CUkernel of_kernel)
{
	CUDA_KERNEL_NODE_PARAMS params;

	args.data = data;
	params = mad_node(&args, of_function);
	params.kern = of_kernel;
	params.gridDimX = 3;
	params.gridDimY = 2;
	params.blockDimX = 32;
	params.blockDimY = 2;
	params.sharedMemBytes = 16;
	return params;
}

static void added_kernel(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS *params, CUfunction wanted,
	CUkernel wanted_kernel)
{
	CUDA_KERNEL_NODE_PARAMS got;
	CUgraphNode node, other;

	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, params));
	check_kernel(node, wanted, wanted_kernel);
	check_kernel(clone_of(node, graph), wanted, wanted_kernel);
	/* What was read can be added and set. */
	CHECK(cuGraphKernelNodeGetParams(node, &got));
	CHECK(cuGraphAddKernelNode(&other, graph, &node, 1, &got));
	check_kernel(other, wanted, wanted_kernel);
	CHECK(cuGraphKernelNodeSetParams(node, &got));
	check_kernel(node, wanted, wanted_kernel);
}

static CUresult launch(CUfunction of_function)
{
	kernel_params(NULL, NULL);
	return cuLaunchKernel(of_function, 3, 2, 1, 32, 2, 1, 16, stream, args.list, NULL);
}

static CUresult launch_of_module(void)
{
	return launch(mad);
}

static CUresult launch_of_kernel(void)
{
	return launch((CUfunction)kernel);
}

static CUresult launch_of_function(void)
{
	return launch(function);
}

static void kernels(void)
{
	CUDA_KERNEL_NODE_PARAMS params = kernel_params(mad, NULL);
	CUgraph graph = NULL;
	CUgraphNode node;

	CHECK(cuGraphCreate(&graph, 0));
	added_kernel(graph, &params, mad, NULL);
	params = kernel_params(NULL, kernel);
	added_kernel(graph, &params, function, kernel);
	params.ctx = context;
	added_kernel(graph, &params, function, kernel);
	params = kernel_params(function, NULL);
	added_kernel(graph, &params, function, kernel);
	/* Launches take a kernel for a function, nodes do not. */
	params = kernel_params((CUfunction)kernel, NULL);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	CHECK(cuGraphDestroy(graph));
	check_kernel(only_node(capture(launch_of_module)), mad, NULL);
	check_kernel(only_node(capture(launch_of_kernel)), function, kernel);
	check_kernel(only_node(capture(launch_of_function)), function, kernel);
}

static void check_buffer(CUgraphNode node, const void *buffer, size_t size)
{
	CUDA_KERNEL_NODE_PARAMS params;
	size_t got = 0;
	const void *bytes = NULL;

	CHECK(cuGraphKernelNodeGetParams(node, &params));
	MUST(params.func == mad && !params.kernelParams && params.extra);
	for (void **at = params.extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
		if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
			got = *(size_t *)at[1];
		else if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
			bytes = at[1];
	}
	MUST(got == size && bytes && bytes != buffer && !memcmp(bytes, buffer, size));
}

/* Parameters in one buffer come back in one; without parameters, there is no list. */
static void kernels_with_other_params(void)
{
	struct {
		CUdeviceptr data;
		unsigned count, times, add;
	} buffer = {data, COUNT, 3, 4};
	size_t size = offsetof(struct mad_args, add) + sizeof(unsigned);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&size, CU_LAUNCH_PARAM_END};
	CUDA_KERNEL_NODE_PARAMS params = kernel_params(mad, NULL), got;
	CUgraph graph = NULL;
	CUmodule empty;
	CUgraphNode node, other;

	CHECK(cuGraphCreate(&graph, 0));
	params.kernelParams = NULL;
	params.extra = extra;
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	check_buffer(node, &buffer, size);
	check_buffer(clone_of(node, graph), &buffer, size);
	CHECK(cuGraphKernelNodeGetParams(node, &got));
	CHECK(cuGraphAddKernelNode(&other, graph, &node, 1, &got));
	check_buffer(other, &buffer, size);
	params = kernel_params(mad, NULL);
	CHECK(cuGraphKernelNodeSetParams(node, &params));
	check_kernel(node, mad, NULL);
	CHECK(cuModuleLoadData(&empty, IMAGE_OF_NOTHING));
	params = kernel_params(NULL, NULL);
	CHECK(cuModuleGetFunction(&params.func, empty, "nothing"));
	params.kernelParams = NULL;
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	CHECK(cuGraphKernelNodeGetParams(node, &got));
	MUST(got.func == params.func && !got.kernelParams && !got.extra);
	CHECK(cuGraphDestroy(graph));
	CHECK(cuModuleUnload(empty));
}

/* A change of the executable graph is none of the node. */
static void changed_kernels(void)
{
	CUDA_KERNEL_NODE_PARAMS params = kernel_params(mad, NULL), other;
	CUgraphNode node;
	CUgraph graph = NULL;
	CUgraphExec exec;
	unsigned is_enabled = 7;
	cuuint64_t flags = 7;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	CHECK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	other = params;
	other.func = mad_too;
	other.gridDimX = 1;
	CHECK(cuGraphExecKernelNodeSetParams(exec, node, &other));
	check_kernel(node, mad, NULL);
	CHECK(cuGraphNodeGetEnabled(exec, node, &is_enabled));
	MUST(is_enabled == 1);
	CHECK(cuGraphNodeSetEnabled(exec, node, 0));
	CHECK(cuGraphNodeGetEnabled(exec, node, &is_enabled));
	MUST(is_enabled == 0);
	CHECK(cuGraphExecGetFlags(exec, &flags));
	MUST(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	CHECK(cuGraphExecDestroy(exec));
	params = kernel_params(NULL, kernel);
	CHECK(cuGraphKernelNodeSetParams(node, &params));
	check_kernel(node, function, kernel);
	CHECK(cuGraphDestroy(graph));
}

#define SAME(member) MUST(got.member == wanted->member)

/* All of the description, as the program passed it. */
static void check_copy(CUgraphNode node, const CUDA_MEMCPY3D *wanted)
{
	CUDA_MEMCPY3D got;

	memset(&got, 0xff, sizeof(got));
	CHECK(cuGraphMemcpyNodeGetParams(node, &got));
	SAME(srcXInBytes);
	SAME(srcY);
	SAME(srcZ);
	SAME(srcLOD);
	SAME(srcMemoryType);
	SAME(srcHost);
	SAME(srcDevice);
	SAME(srcArray);
	SAME(srcPitch);
	SAME(srcHeight);
	SAME(dstXInBytes);
	SAME(dstY);
	SAME(dstZ);
	SAME(dstLOD);
	SAME(dstMemoryType);
	SAME(dstHost);
	SAME(dstDevice);
	SAME(dstArray);
	SAME(dstPitch);
	SAME(dstHeight);
	SAME(WidthInBytes);
	SAME(Height);
	SAME(Depth);
}

static CUDA_MEMCPY3D line_of(CUmemorytype dst, CUmemorytype src, size_t size)
{
	CUDA_MEMCPY3D copy;

	memset(&copy, 0, sizeof(copy));
	copy.dstMemoryType = dst;
	copy.srcMemoryType = src;
	copy.WidthInBytes = size;
	copy.Height = copy.Depth = 1;
	return copy;
}

static CUresult copy_to_device(void)
{
	return cuMemcpyHtoDAsync(data, pinned, 40, stream);
}

static CUresult copy_from_device(void)
{
	return cuMemcpyDtoHAsync(host, data + 8, 40, stream);
}

static CUresult copy_on_device(void)
{
	return cuMemcpyDtoDAsync(data + 64, data, 40, stream);
}

static CUresult copy_any(void)
{
	return cuMemcpyAsync(data + 64, (CUdeviceptr)(size_t)pinned, 40, stream);
}

/* Captured copies are described as their calls name the ends. */
static void captured_copies(void)
{
	CUDA_MEMCPY3D copy = line_of(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, 40);

	copy.dstDevice = data;
	copy.srcHost = pinned;
	check_copy(only_node(capture(copy_to_device)), &copy);
	copy = line_of(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, 40);
	copy.dstHost = host;
	copy.srcDevice = data + 8;
	check_copy(only_node(capture(copy_from_device)), &copy);
	copy = line_of(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, 40);
	copy.dstDevice = data + 64;
	copy.srcDevice = data;
	check_copy(only_node(capture(copy_on_device)), &copy);
	copy = line_of(CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED, 40);
	copy.dstDevice = data + 64;
	copy.srcDevice = (CUdeviceptr)(size_t)pinned;
	check_copy(only_node(capture(copy_any)), &copy);
}

/* Copies between contexts cannot be captured. */
static void refused_copies(void)
{
	CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = data,
		.srcContext = context,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = data + 64,
		.dstContext = context,
		.WidthInBytes = 40,
		.Height = 1,
		.Depth = 1};
	CUgraph graph = NULL;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuMemcpyPeerAsync(data + 64, context, data, context, 40, stream));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemcpy3DPeerAsync(&box, stream));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

static void added_copies(void)
{
	CUDA_MEMCPY3D copy = line_of(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED, 20), line;
	CUgraph graph = NULL;
	CUgraphNode node;
	CUgraphExec exec;

	copy.srcDevice = (CUdeviceptr)(size_t)pinned;
	copy.srcPitch = 64;
	copy.srcHeight = 5;
	copy.srcXInBytes = 4;
	copy.srcY = copy.srcZ = 1;
	copy.dstDevice = data;
	copy.dstPitch = 128;
	copy.dstHeight = 6;
	copy.dstXInBytes = 8;
	copy.dstY = 2;
	copy.dstZ = 1;
	copy.Height = 3;
	copy.Depth = 2;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
	check_copy(node, &copy);
	check_copy(clone_of(node, graph), &copy);
	/* What the memory's kind makes unused comes back, too. */
	line = line_of(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, 100);
	line.dstDevice = data;
	line.srcHost = pinned;
	line.srcDevice = 0x1234;
	line.dstHost = host;
	line.dstPitch = 100;
	line.srcPitch = 300;
	line.srcHeight = 7;
	CHECK(cuGraphMemcpyNodeSetParams(node, &line));
	check_copy(node, &line);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	copy = line;
	copy.dstDevice += 16;
	CHECK(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
	check_copy(node, &line);
	/* The types of memory stay. */
	copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.srcDevice = (CUdeviceptr)(size_t)pinned;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void check_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *wanted)
{
	CUDA_MEMSET_NODE_PARAMS got;

	CHECK(cuGraphMemsetNodeGetParams(node, &got));
	MUST(got.dst == wanted->dst && got.pitch == wanted->pitch && got.value == wanted->value);
	MUST(got.elementSize == wanted->elementSize);
	MUST(got.width == wanted->width && got.height == wanted->height);
}

static CUresult fill_line(void)
{
	return cuMemsetD16Async(data + 2, 0xabcd, 40, stream);
}

static CUresult fill_row(void)
{
	return cuMemsetD2D32Async(data, 64, 1, 10, 1, stream);
}

static CUresult fill_rows(void)
{
	return cuMemsetD2D8Async(data, 64, 1, 20, 3, stream);
}

static void fills(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {data + 2, 0, 0xabcd, 2, 40, 1}, other;
	CUgraph graph = NULL;
	CUgraphNode node;
	CUgraphExec exec;

	check_fill(only_node(capture(fill_line)), &fill);
	fill = (CUDA_MEMSET_NODE_PARAMS){data, 64, 1, 4, 10, 1};
	check_fill(only_node(capture(fill_row)), &fill);
	fill = (CUDA_MEMSET_NODE_PARAMS){data, 64, 1, 1, 20, 3};
	check_fill(only_node(capture(fill_rows)), &fill);
	CHECK(cuGraphCreate(&graph, 0));
	/* The pitch of one row has no meaning, and comes back. */
	fill = (CUDA_MEMSET_NODE_PARAMS){data + 4, 12345, 0x12345678, 1, 40, 1};
	CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
	check_fill(node, &fill);
	fill = (CUDA_MEMSET_NODE_PARAMS){data, 128, 0x12345678, 2, 40, 3};
	CHECK(cuGraphMemsetNodeSetParams(node, &fill));
	check_fill(node, &fill);
	check_fill(clone_of(node, graph), &fill);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	other = fill;
	other.value = 7;
	CHECK(cuGraphExecMemsetNodeSetParams(exec, node, &other, context));
	check_fill(node, &fill);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

static void check_ops(CUgraphNode node, const CUstreamBatchMemOpParams *wanted, unsigned count)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS got;

	CHECK(cuGraphBatchMemOpNodeGetParams(node, &got));
	MUST(got.ctx == context && got.count == count && got.flags == 0);
	for (unsigned i = 0; i < count; i++) {
		MUST(got.paramArray[i].operation == wanted[i].operation);
		MUST(got.paramArray[i].waitValue.address == wanted[i].waitValue.address);
		MUST(got.paramArray[i].waitValue.value64 == wanted[i].waitValue.value64);
		MUST(got.paramArray[i].waitValue.flags == wanted[i].waitValue.flags);
	}
}

static CUresult wait_for_word(void)
{
	return cuStreamWaitValue32(stream, data + 8, 7, CU_STREAM_WAIT_VALUE_EQ);
}

static void memory_ops(void)
{
	CUstreamBatchMemOpParams ops[2];
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 2, ops, 0};
	CUgraph graph = NULL;
	CUgraphNode node;

	memset(ops, 0, sizeof(ops));
	ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ops[0].writeValue.address = data;
	ops[0].writeValue.value64 = 0x1122334455667788ull;
	ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[1].waitValue.address = data + 8;
	ops[1].waitValue.value = 7;
	ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
	check_ops(node, ops, 2);
	check_ops(clone_of(node, graph), ops, 2);
	params.count = 1;
	ops[0].writeValue.value64 = 5;
	CHECK(cuGraphBatchMemOpNodeSetParams(node, &params));
	check_ops(node, ops, 1);
	CHECK(cuGraphDestroy(graph));
	check_ops(only_node(capture(wait_for_word)), &ops[1], 1);
}

static int index_of(const CUgraphNode *nodes, int n, CUgraphNode node)
{
	int i = 0;

	while (i < n && nodes[i] != node)
		i++;
	MUST(i < n);
	return i;
}

/* A set bit for each edge, at 4 * from + to. */
static unsigned edges_of(CUgraph graph, const CUgraphNode *nodes)
{
	CUgraphNode from[N_EDGES + 2], to[N_EDGES + 2];
	CUgraphEdgeData data_got[N_EDGES + 2], plain;
	size_t n = N_EDGES + 2;
	unsigned edges = 0;

	memset(&plain, 0, sizeof(plain));
	memset(data_got, 0xff, sizeof(data_got));
	CHECK(cuGraphGetEdges_v2(graph, from, to, data_got, &n));
	MUST(n == N_EDGES);
	for (size_t i = 0; i < n; i++) {
		MUST(!memcmp(&data_got[i], &plain, sizeof(plain)));
		edges |= 1u << (4 * index_of(nodes, 4, from[i]) + index_of(nodes, 4, to[i]));
	}
	return edges;
}

static void edges(void)
{
	CUgraphNode nodes[4], listed[5], from[N_EDGES], to[N_EDGES];
	CUgraph graph = NULL;
	size_t n = 5;

	CHECK(cuGraphCreate(&graph, 0));
	for (int i = 0; i < 4; i++)
		CHECK(cuGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
	from[0] = nodes[2];
	from[1] = from[2] = nodes[0];
	to[0] = nodes[3];
	to[1] = nodes[2];
	to[2] = nodes[1];
	CHECK(cuGraphAddDependencies_v2(graph, from, to, NULL, N_EDGES));
	MUST(edges_of(graph, nodes) == (1u << 11 | 1u << 2 | 1u << 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, from, to, NULL, 1));
	CHECK(cuGraphGetNodes(graph, listed, &n));
	MUST(n == 4 && !memcmp(listed, nodes, sizeof(nodes)));
	n = 5;
	CHECK(cuGraphGetRootNodes(graph, listed, &n));
	MUST(n == 1 && listed[0] == nodes[0]);
	n = 5;
	CHECK(cuGraphNodeGetDependencies_v2(nodes[3], listed, NULL, &n));
	MUST(n == 1 && listed[0] == nodes[2]);
	n = 5;
	CHECK(cuGraphNodeGetDependentNodes_v2(nodes[0], listed, NULL, &n));
	MUST(n == 2 && listed[0] != listed[1]);
	CHECK(cuGraphRemoveDependencies_v2(graph, from, to, NULL, 1));
	n = 5;
	CHECK(cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &n));
	MUST(n == N_EDGES - 1);
	CHECK(cuGraphDestroy(graph));
}

/* A node's child is a clone, and so are the nodes of the child in a clone. */
static void children(void)
{
	CUgraphNode inner, node, found, nodes[2];
	CUgraph graph = NULL, child = NULL, got, clone, clone_child;
	CUgraphNodeType type;
	size_t n = 2;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphCreate(&child, 0));
	CHECK(cuGraphAddEmptyNode(&inner, child, NULL, 0));
	CHECK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	CHECK(cuGraphNodeGetType(node, &type));
	MUST(type == CU_GRAPH_NODE_TYPE_GRAPH);
	CHECK(cuGraphChildGraphNodeGetGraph(node, &got));
	MUST(got && got != child);
	CHECK(cuGraphGetNodes(got, nodes, &n));
	MUST(n == 1 && nodes[0] != inner);
	CHECK(cuGraphNodeFindInClone(&found, inner, got));
	MUST(found == nodes[0]);
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphNodeFindInClone(&found, node, clone));
	CHECK(cuGraphChildGraphNodeGetGraph(found, &clone_child));
	MUST(clone_child != got);
	CHECK(cuGraphNodeFindInClone(&found, nodes[0], clone_child));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, inner, clone_child));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, nodes[0], clone));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(got));
	CHECK(cuGraphDestroy(clone));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuGraphDestroy(child));
}

int main(void)
{
	setup();
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "mad"));
	CHECK(cuKernelGetFunction(&function, kernel));
	CHECK(cuMemAllocHost(&pinned, BYTES));
	kernels();
	kernels_with_other_params();
	changed_kernels();
	captured_copies();
	refused_copies();
	added_copies();
	fills();
	memory_ops();
	edges();
	children();
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuLibraryUnload(library));
	return finish();
}
