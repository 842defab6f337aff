/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The parameters of graph nodes, read back through the runtime: of nodes that were added,
 * captured, changed and cloned. A program that changes the nodes of a captured graph
 * recognises its kernels by their functions.
 */

#define NAME "graph_params"
#include "../helpers/program.h"

#define WIDTH 40
#define HEIGHT 5
#define DEPTH 3
#define PITCH 64
#define ROWS 7

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL("line %d: not so: %s", __LINE__, #condition);                         \
	} while (0)

struct pair {
	char letter;
	double number;
};

__device__ int variable[4];

__global__ void store(int *at, int value)
{
	*at = value;
}

__global__ void mix(char letter, struct pair pair, int *at)
{
	at[threadIdx.x] = letter + pair.letter + (int)pair.number;
}

static cudaStream_t stream;
static int *memory, *pinned;

static cudaGraphNode_t only_node(cudaGraph_t graph)
{
	cudaGraphNode_t node;
	size_t n = 0;

	CHECK(cudaGraphGetNodes(graph, NULL, &n));
	MUST(n == 1);
	CHECK(cudaGraphGetNodes(graph, &node, &n));
	return node;
}

static void capture_begin(void)
{
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static cudaGraph_t capture_end(void)
{
	cudaGraph_t graph;

	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static void check_store(cudaGraphNode_t node, int *at, int value)
{
	cudaKernelNodeParams params;

	CHECK(cudaGraphKernelNodeGetParams(node, &params));
	MUST(params.func == (void *)store);
	MUST(params.gridDim.x == 2 && params.gridDim.y == 1 && params.gridDim.z == 1);
	MUST(params.blockDim.x == 3 && params.blockDim.y == 2 && params.blockDim.z == 1);
	MUST(params.sharedMemBytes == 16 && params.kernelParams && !params.extra);
	MUST(*(int **)params.kernelParams[0] == at && *(int *)params.kernelParams[1] == value);
}

static cudaGraphNode_t clone_of(cudaGraphNode_t node, cudaGraph_t graph)
{
	cudaGraph_t clone;
	cudaGraphNode_t found;

	CHECK(cudaGraphClone(&clone, graph));
	CHECK(cudaGraphNodeFindInClone(&found, node, clone));
	MUST(found != node);
	return found;
}

static void captured_kernels(void)
{
	cudaKernelNodeParams params;
	cudaGraphNode_t node, other;
	cudaGraph_t graph;
	struct pair pair = {5, 7.5};

	capture_begin();
	store<<<2, dim3(3, 2), 16, stream>>>(memory, 5);
	graph = capture_end();
	node = only_node(graph);
	check_store(node, memory, 5);
	check_store(clone_of(node, graph), memory, 5);
	/* What was read can be added and set. */
	CHECK(cudaGraphKernelNodeGetParams(node, &params));
	CHECK(cudaGraphAddKernelNode(&other, graph, &node, 1, &params));
	check_store(other, memory, 5);
	CHECK(cudaGraphKernelNodeSetParams(node, &params));
	check_store(node, memory, 5);
	CHECK(cudaGraphDestroy(graph));
	capture_begin();
	mix<<<1, 1, 0, stream>>>(3, pair, memory);
	graph = capture_end();
	CHECK(cudaGraphKernelNodeGetParams(only_node(graph), &params));
	MUST(params.func == (void *)mix && *(char *)params.kernelParams[0] == 3);
	MUST(((struct pair *)params.kernelParams[1])->letter == 5);
	MUST(((struct pair *)params.kernelParams[1])->number == 7.5);
	MUST(*(int **)params.kernelParams[2] == memory);
	CHECK(cudaGraphDestroy(graph));
}

static void added_kernels(void)
{
	int value = 11, *at = memory;
	void *args[] = {&at, &value};
	cudaKernelNodeParams params = {};
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	params.func = (void *)store;
	params.gridDim = dim3(2);
	params.blockDim = dim3(3, 2);
	params.sharedMemBytes = 16;
	params.kernelParams = args;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &params));
	value = 12;
	check_store(node, memory, 11);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	at = memory + 1;
	CHECK(cudaGraphKernelNodeSetParams(node, &params));
	value = 13;
	check_store(node, memory + 1, 12);
	/* A change of the executable graph is none of the node. */
	CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &params));
	check_store(node, memory + 1, 12);
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&value, memory + 1, sizeof(value), cudaMemcpyDeviceToHost));
	MUST(value == 13);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

/* Changes the node that it recognises by its function, before each launch. */
static void changed_by_function(void)
{
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int got[2];

	capture_begin();
	store<<<1, 1, 0, stream>>>(memory, 5);
	graph = capture_end();
	node = only_node(graph);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 6; i++) {
		int *at = memory + (i & 1), value = 10 + i;
		void *args[] = {&at, &value};
		cudaKernelNodeParams params;

		CHECK(cudaGraphKernelNodeGetParams(node, &params));
		MUST(params.func == (void *)store);
		params.kernelParams = args;
		CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &params));
		CHECK(cudaGraphLaunch(exec, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(got, memory, sizeof(got), cudaMemcpyDeviceToHost));
	MUST(got[0] == 14 && got[1] == 15);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void captured_copies(void)
{
	cudaMemcpy3DParms params;
	cudaGraph_t graph;
	int *at;

	CHECK(cudaGetSymbolAddress((void **)&at, variable));
	capture_begin();
	CHECK(cudaMemcpyToSymbolAsync(variable, pinned, 8, 4, cudaMemcpyHostToDevice, stream));
	graph = capture_end();
	CHECK(cudaGraphMemcpyNodeGetParams(only_node(graph), &params));
	MUST(params.kind == cudaMemcpyHostToDevice);
	MUST(params.srcPtr.ptr == pinned && params.dstPtr.ptr == at + 1);
	MUST(params.extent.width == 8 && params.extent.height == 1 && params.extent.depth == 1);
	CHECK(cudaGraphDestroy(graph));
	capture_begin();
	CHECK(cudaMemcpyAsync(pinned + 1, memory, 12, cudaMemcpyDeviceToHost, stream));
	graph = capture_end();
	CHECK(cudaGraphMemcpyNodeGetParams(only_node(graph), &params));
	MUST(params.kind == cudaMemcpyDeviceToHost);
	MUST(params.srcPtr.ptr == memory && params.dstPtr.ptr == pinned + 1);
	MUST(params.extent.width == 12 && params.extent.height == 1 && params.extent.depth == 1);
	CHECK(cudaGraphDestroy(graph));
	capture_begin();
	CHECK(cudaMemcpyAsync(memory + 9, memory, 12, cudaMemcpyDeviceToDevice, stream));
	graph = capture_end();
	CHECK(cudaGraphMemcpyNodeGetParams(only_node(graph), &params));
	MUST(params.kind == cudaMemcpyDeviceToDevice);
	MUST(params.srcPtr.ptr == memory && params.dstPtr.ptr == memory + 9);
	CHECK(cudaGraphDestroy(graph));
}

static void check_box(cudaGraphNode_t node, const cudaMemcpy3DParms *wanted)
{
	cudaMemcpy3DParms params;

	CHECK(cudaGraphMemcpyNodeGetParams(node, &params));
	MUST(params.kind == wanted->kind);
	MUST(params.srcPtr.ptr == wanted->srcPtr.ptr && params.dstPtr.ptr == wanted->dstPtr.ptr);
	MUST(params.srcPtr.pitch == wanted->srcPtr.pitch);
	MUST(params.dstPtr.pitch == wanted->dstPtr.pitch);
	MUST(params.srcPtr.ysize == wanted->srcPtr.ysize);
	MUST(params.dstPtr.ysize == wanted->dstPtr.ysize);
	MUST(!memcmp(&params.srcPos, &wanted->srcPos, sizeof(params.srcPos)));
	MUST(!memcmp(&params.dstPos, &wanted->dstPos, sizeof(params.dstPos)));
	MUST(!memcmp(&params.extent, &wanted->extent, sizeof(params.extent)));
	MUST(params.srcArray == wanted->srcArray && params.dstArray == wanted->dstArray);
}

static void added_copies(void)
{
	cudaMemcpy3DParms up = {}, across;
	cudaGraphNode_t node, other;
	cudaGraph_t graph;

	up.srcPtr = make_cudaPitchedPtr(pinned, PITCH, WIDTH, ROWS);
	up.dstPtr = make_cudaPitchedPtr(memory, 2 * PITCH, WIDTH, ROWS + 1);
	up.srcPos = make_cudaPos(3, 1, 0);
	up.dstPos = make_cudaPos(8, 2, 1);
	up.extent = make_cudaExtent(WIDTH, HEIGHT, DEPTH - 1);
	up.kind = cudaMemcpyHostToDevice;
	across = up;
	across.srcPtr.ptr = memory + PITCH * ROWS * DEPTH;
	across.kind = cudaMemcpyDeviceToDevice;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &up));
	check_box(node, &up);
	CHECK(cudaGraphAddMemcpyNode(&other, graph, &node, 1, &across));
	check_box(other, &across);
	check_box(clone_of(other, graph), &across);
	across.dstPos.x = 12;
	across.extent.width = 16;
	CHECK(cudaGraphMemcpyNodeSetParams(other, &across));
	check_box(other, &across);
	CHECK(cudaGraphDestroy(graph));
}

/* A variable and allocated memory may be different kinds of memory for a server. */
static void changed_copies(void)
{
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	pinned[0] = 77;
	pinned[1] = pinned[2] = 0;
	CHECK(cudaMemcpyToSymbol(variable, pinned, sizeof(int)));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNodeFromSymbol(&node, graph, NULL, 0, pinned + 1, variable,
		sizeof(int), 0, cudaMemcpyDeviceToHost));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	MUST(pinned[1] == 77);
	CHECK(cudaMemset(memory, 1, sizeof(int)));
	CHECK(cudaGraphExecMemcpyNodeSetParams1D(
		exec, node, pinned + 2, memory, sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	MUST(pinned[2] == 0x01010101 && pinned[1] == 77);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void check_fill(cudaGraphNode_t node, const cudaMemsetParams *wanted)
{
	cudaMemsetParams params;

	CHECK(cudaGraphMemsetNodeGetParams(node, &params));
	MUST(params.dst == wanted->dst && params.value == wanted->value);
	MUST(params.elementSize == wanted->elementSize);
	MUST(params.width == wanted->width && params.height == wanted->height);
	MUST(params.height == 1 || params.pitch == wanted->pitch);
}

static void fills(void)
{
	cudaMemsetParams params = {}, captured = {};
	cudaGraphNode_t node;
	cudaGraph_t graph;

	params.dst = memory + 2;
	params.value = 0x12345678;
	params.elementSize = 4;
	params.width = 10;
	params.height = 1;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &params));
	check_fill(node, &params);
	params.value = 0xab;
	params.elementSize = 1;
	params.height = 3;
	params.pitch = PITCH;
	CHECK(cudaGraphMemsetNodeSetParams(node, &params));
	check_fill(node, &params);
	check_fill(clone_of(node, graph), &params);
	CHECK(cudaGraphDestroy(graph));
	captured.dst = memory + 1;
	captured.value = 0x11;
	captured.elementSize = 1;
	captured.width = 20;
	captured.height = 3;
	captured.pitch = PITCH;
	capture_begin();
	CHECK(cudaMemset2DAsync(memory + 1, PITCH, 0x11, 20, 3, stream));
	graph = capture_end();
	check_fill(only_node(graph), &captured);
	CHECK(cudaGraphDestroy(graph));
}

static void CUDART_CB call(void *data)
{
	(*(int *)data)++;
}

static void CUDART_CB other_call(void *data)
{
	(void)data;
}

static void host_functions(void)
{
	cudaHostNodeParams params = {call, pinned}, got;
	cudaGraphNode_t node;
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddHostNode(&node, graph, NULL, 0, &params));
	CHECK(cudaGraphHostNodeGetParams(node, &got));
	MUST(got.fn == call && got.userData == pinned);
	params.fn = other_call;
	params.userData = pinned + 1;
	CHECK(cudaGraphHostNodeSetParams(node, &params));
	CHECK(cudaGraphHostNodeGetParams(clone_of(node, graph), &got));
	MUST(got.fn == other_call && got.userData == pinned + 1);
	CHECK(cudaGraphDestroy(graph));
	capture_begin();
	CHECK(cudaLaunchHostFunc(stream, call, &params));
	graph = capture_end();
	CHECK(cudaGraphHostNodeGetParams(only_node(graph), &got));
	MUST(got.fn == call && got.userData == &params);
	CHECK(cudaGraphDestroy(graph));
}

static void events_and_memory(void)
{
	cudaMemAllocNodeParams params = {}, got;
	cudaGraphNode_t alloc, release, record, wait;
	cudaEvent_t one, other, event;
	cudaGraph_t graph;
	void *freed;

	CHECK(cudaEventCreate(&one));
	CHECK(cudaEventCreate(&other));
	CHECK(cudaGraphCreate(&graph, 0));
	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = 3000;
	CHECK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
	CHECK(cudaGraphMemAllocNodeGetParams(alloc, &got));
	MUST(got.dptr && got.dptr == params.dptr && got.bytesize == 3000);
	MUST(got.poolProps.allocType == cudaMemAllocationTypePinned);
	MUST(got.poolProps.location.type == cudaMemLocationTypeDevice);
	MUST(got.poolProps.location.id == 0 && got.accessDescCount == 0);
	CHECK(cudaGraphAddMemFreeNode(&release, graph, &alloc, 1, params.dptr));
	CHECK(cudaGraphMemFreeNodeGetParams(release, &freed));
	MUST(freed == params.dptr);
	CHECK(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, one));
	CHECK(cudaGraphEventRecordNodeGetEvent(record, &event));
	MUST(event == one);
	CHECK(cudaGraphEventRecordNodeSetEvent(record, other));
	CHECK(cudaGraphEventRecordNodeGetEvent(record, &event));
	MUST(event == other);
	CHECK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, one));
	CHECK(cudaGraphEventWaitNodeSetEvent(wait, other));
	CHECK(cudaGraphEventWaitNodeGetEvent(wait, &event));
	MUST(event == other);
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaEventDestroy(one));
	CHECK(cudaEventDestroy(other));
}

int main(void)
{
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&memory, 1 << 16));
	CHECK(cudaMallocHost(&pinned, 1 << 16));
	captured_kernels();
	added_kernels();
	changed_by_function();
	captured_copies();
	added_copies();
	changed_copies();
	fills();
	host_functions();
	events_and_memory();
	CHECK(cudaFree(memory));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaStreamDestroy(stream));
	printf(NAME ": ok\n");
	return 0;
}
