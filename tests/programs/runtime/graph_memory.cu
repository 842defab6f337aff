/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that graphs allocate: by nodes and by captured allocations, freed in the graph, by a
 * stream, by the host, by another graph, or by the next launch; still allocated after its graph
 * is destroyed; moved into a parent; and what is refused.
 *
 * With `unordered', another stream launches the graph again while the first still reads memory
 * that it frees after that. With `footprint', the program prints how much memory a graph takes
 * for many allocations, few of which exist at the same time.
 */

#define NAME "graph_memory"
#include "../helpers/program.h"

enum {
	COUNT = 1 << 16,
	BYTES = COUNT * sizeof(unsigned),
	REPLAYS = 8
};

static __global__ void fill(unsigned *data, const unsigned *seed)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT;
		i += gridDim.x * blockDim.x)
		data[i] = *seed + i;
}

static __global__ void twice(unsigned *out, const unsigned *in)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT;
		i += gridDim.x * blockDim.x)
		out[i] = 2 * in[i];
}

static __global__ void spin(long ticks)
{
	for (long start = clock64(); clock64() - start < ticks;)
		;
}

static cudaStream_t stream, other;
static unsigned *seed;    /* on the device */
static unsigned *out;     /* on the device */
static unsigned *results; /* pinned */

static void expect(cudaError_t got, cudaError_t expected, const char *what)
{
	if (got != expected)
		FAIL("%s: %d, not %d", what, got, expected);
	cudaGetLastError();
}

/* For calls whose error the documentation does not specify. */
static void refused(cudaError_t got, const char *what)
{
	if (got == cudaSuccess)
		FAIL("%s is not refused", what);
	cudaGetLastError();
}

static void set_seed(unsigned value)
{
	CHECK(cudaMemcpy(seed, &value, sizeof(value), cudaMemcpyHostToDevice));
}

static void check_words(const unsigned *data, unsigned first, unsigned step, const char *what)
{
	CHECK(cudaMemcpy(results, data, BYTES, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < COUNT; i++)
		if (results[i] != first + step * i)
			FAIL("%s: word %u is %u, not %u", what, i, results[i], first + step * i);
}

static cudaGraphNode_t add_kernel(
	cudaGraph_t graph, cudaGraphNode_t after, void *function, void *to, const void *from)
{
	void *args[] = {&to, (void *)&from};
	cudaKernelNodeParams params;
	cudaGraphNode_t node;

	memset(&params, 0, sizeof(params));
	params.func = function;
	params.gridDim = dim3(16);
	params.blockDim = dim3(128);
	params.kernelParams = args;
	CHECK(cudaGraphAddKernelNode(&node, graph, &after, after ? 1 : 0, &params));
	return node;
}

static cudaMemAllocNodeParams memory_of(size_t size)
{
	cudaMemAllocNodeParams params;

	memset(&params, 0, sizeof(params));
	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = size;
	return params;
}

static unsigned *add_alloc(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNode_t *node)
{
	cudaMemAllocNodeParams params = memory_of(BYTES);

	CHECK(cudaGraphAddMemAllocNode(node, graph, &after, after ? 1 : 0, &params));
	if (!params.dptr)
		FAIL("an allocation without an address");
	return (unsigned *)params.dptr;
}

static void run(cudaGraphExec_t exec)
{
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
}

/* Allocates, fills, doubles into `out', frees. */
static cudaGraph_t make_whole(void)
{
	cudaGraph_t graph;
	cudaGraphNode_t node;
	unsigned *data;

	CHECK(cudaGraphCreate(&graph, 0));
	data = add_alloc(graph, NULL, &node);
	node = add_kernel(graph, node, (void *)fill, data, seed);
	node = add_kernel(graph, node, (void *)twice, out, data);
	CHECK(cudaGraphAddMemFreeNode(&node, graph, &node, 1, data));
	return graph;
}

/* Allocates and fills; the caller frees. */
static cudaGraph_t make_half(unsigned **data)
{
	cudaGraph_t graph;
	cudaGraphNode_t node;

	CHECK(cudaGraphCreate(&graph, 0));
	*data = add_alloc(graph, NULL, &node);
	add_kernel(graph, node, (void *)fill, *data, seed);
	return graph;
}

static cudaGraphExec_t make_exec(cudaGraph_t graph, unsigned long long flags)
{
	cudaGraphExec_t exec;

	CHECK(cudaGraphInstantiate(&exec, graph, flags));
	return exec;
}

static void nodes(void)
{
	cudaGraph_t graph = make_whole();
	cudaGraphExec_t exec = make_exec(graph, 0);
	cudaMemAllocNodeParams params;
	cudaGraphNode_t list[8];
	cudaGraphNodeType type;
	size_t n = 8;
	void *freed = NULL;

	CHECK(cudaGraphGetNodes(graph, list, &n));
	if (n != 4)
		FAIL("%zu nodes, not 4", n);
	for (size_t i = 0; i < n; i++) {
		CHECK(cudaGraphNodeGetType(list[i], &type));
		if (type == cudaGraphNodeTypeMemAlloc)
			CHECK(cudaGraphMemAllocNodeGetParams(list[i], &params));
		if (type == cudaGraphNodeTypeMemFree)
			CHECK(cudaGraphMemFreeNodeGetParams(list[i], &freed));
	}
	if (!freed || params.dptr != freed || params.bytesize != BYTES)
		FAIL("nodes say %p and %p, %zu bytes", params.dptr, freed, params.bytesize);
	for (unsigned i = 0; i < REPLAYS; i++) {
		set_seed(1000 * i);
		run(exec);
		check_words(out, 2000 * i, 2, "a graph with its own memory");
	}
	CHECK(cudaGraphExecDestroy(exec));
	exec = make_exec(graph, 0);
	run(exec);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

/* Like a program that uses temporary memory without regard to graphs. */
static void work(unsigned *to, unsigned rounds)
{
	cudaEvent_t fork, join;
	unsigned *a, *b;

	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	for (unsigned i = 0; i < rounds; i++) {
		CHECK(cudaMallocAsync(&a, BYTES, stream));
		CHECK(cudaEventRecord(fork, stream));
		CHECK(cudaStreamWaitEvent(other, fork, 0));
		CHECK(cudaMallocAsync(&b, BYTES, other));
		fill<<<16, 128, 0, stream>>>(a, seed);
		CHECK(cudaMemsetAsync(b, 0, BYTES, other));
		CHECK(cudaEventRecord(join, other));
		CHECK(cudaStreamWaitEvent(stream, join, 0));
		twice<<<16, 128, 0, stream>>>(b, a);
		CHECK(cudaFreeAsync(a, stream));
		CHECK(cudaMallocAsync(&a, BYTES / 2 + BYTES / 4, stream));
		CHECK(cudaMemsetAsync(a, 0xff, BYTES / 2 + BYTES / 4, stream));
		twice<<<16, 128, 0, stream>>>(to, b);
		CHECK(cudaFreeAsync(b, stream));
		CHECK(cudaFreeAsync(a, stream));
	}
	CHECK(cudaEventDestroy(join));
	CHECK(cudaEventDestroy(fork));
}

static cudaGraph_t capture(unsigned *to, unsigned rounds)
{
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	work(to, rounds);
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static void captured(void)
{
	cudaGraph_t graph = capture(out, 20);
	cudaGraphExec_t exec = make_exec(graph, 0);

	CHECK(cudaGraphDestroy(graph));
	for (unsigned i = 0; i < REPLAYS; i++) {
		set_seed(77 * i);
		run(exec);
		check_words(out, 4 * 77 * i, 4, "captured allocations");
	}
	CHECK(cudaGraphExecDestroy(exec));
}

/* Another capture of the same form with memory elsewhere: the update is refused. */
static void updated(void)
{
	cudaGraphExecUpdateResultInfo info;
	unsigned *more;
	cudaGraph_t graph = capture(out, 2);
	cudaGraphExec_t exec = make_exec(graph, 0);

	set_seed(5);
	run(exec);
	check_words(out, 20, 4, "before the update");
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaMalloc(&more, BYTES));
	graph = capture(more, 2);
	if (cudaGraphExecUpdate(exec, graph, &info) != cudaErrorGraphExecUpdateFailure) {
		printf(NAME ": memory of a graph was updated\n");
		exit(1);
	}
	cudaGetLastError();
	set_seed(6);
	run(exec);
	check_words(out, 24, 4, "after the update that was none");
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFree(more));
}

/* An allocation that the graph does not free exists until something else frees it. */
static void outlives(void)
{
	unsigned *data;
	cudaGraphNode_t node;
	cudaGraph_t graph = make_half(&data), freeing;
	cudaGraphExec_t exec = make_exec(graph, 0), freeing_exec;
	cudaPointerAttributes is;

	CHECK(cudaGraphCreate(&freeing, 0));
	node = add_kernel(freeing, NULL, (void *)twice, out, data);
	CHECK(cudaGraphAddMemFreeNode(&node, freeing, &node, 1, data));
	freeing_exec = make_exec(freeing, 0);
	for (unsigned i = 0; i < REPLAYS; i++) {
		set_seed(10 * i);
		CHECK(cudaGraphLaunch(exec, stream));
		expect(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue,
			"a launch that would allocate again");
		CHECK(cudaPointerGetAttributes(&is, data));
		if (is.type != cudaMemoryTypeDevice)
			FAIL("memory of a graph is of type %d", is.type);
		twice<<<16, 128, 0, stream>>>(out, data);
		switch (i % 3) {
		case 0:
			CHECK(cudaFreeAsync(data, stream));
			break;
		case 1:
			CHECK(cudaFree(data));
			break;
		default:
			CHECK(cudaMemsetAsync(out, 0, BYTES, stream));
			CHECK(cudaGraphLaunch(freeing_exec, stream));
			break;
		}
		CHECK(cudaStreamSynchronize(stream));
		check_words(out, 20 * i, 2, "memory that outlives a launch");
	}
	/* Its graph is destroyed too, and the executable graph. */
	set_seed(4711);
	run(exec);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphExecDestroy(freeing_exec));
	CHECK(cudaGraphDestroy(freeing));
	check_words(data, 4711, 1, "memory without its graph");
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaStreamSynchronize(stream));
	refused(cudaFreeAsync(data, stream), "a second free");
}

static void freed_by_launch(void)
{
	unsigned *data;
	cudaGraph_t graph = make_half(&data);
	cudaGraphExec_t exec = make_exec(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);

	for (unsigned i = 0; i < REPLAYS; i++) {
		set_seed(i);
		run(exec);
		check_words(data, i, 1, "memory that the next launch frees");
	}
	CHECK(cudaFree(data));
	run(exec);
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamSynchronize(stream));
}

static void restricted(void)
{
	cudaGraph_t graph = make_whole(), clone, parent;
	cudaGraphNode_t list[8], edge[2], node;
	cudaGraphExec_t exec = make_exec(graph, 0), again;
	cudaMemAllocNodeParams params = memory_of(BYTES);
	size_t n = 8;
	unsigned *data;

	CHECK(cudaGraphGetNodes(graph, list, &n));
	refused(cudaGraphClone(&clone, graph), "a clone");
	refused(cudaGraphInstantiate(&again, graph, 0), "a second instance");
	refused(cudaGraphDestroyNode(list[1]), "the end of a node");
	CHECK(cudaGraphCreate(&parent, 0));
	refused(cudaGraphAddChildGraphNode(&node, parent, NULL, 0, graph), "a copy as a child");
	edge[0] = list[0];
	edge[1] = list[1];
	refused(cudaGraphRemoveDependencies(graph, &edge[0], &edge[1], NULL, 1),
		"the end of an edge");
	for (size_t i = 0; i < n; i++) {
		cudaGraphNodeType type;

		CHECK(cudaGraphNodeGetType(list[i], &type));
		if (type == cudaGraphNodeTypeMemAlloc)
			CHECK(cudaGraphMemAllocNodeGetParams(list[i], &params));
	}
	expect(cudaGraphAddMemFreeNode(&node, graph, NULL, 0, params.dptr), cudaErrorInvalidValue,
		"a second free in a graph");
	refused(cudaGraphAddMemFreeNode(&node, parent, NULL, 0, params.dptr),
		"a free of what its own graph frees");
	run(exec);
	refused(cudaFree(params.dptr), "a free by the host of what its own graph frees");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	/* Addresses that belong to no graph. */
	CHECK(cudaMalloc(&data, BYTES));
	expect(cudaGraphAddMemFreeNode(&node, parent, NULL, 0, data), cudaErrorInvalidValue,
		"a node that frees other memory");
	expect(cudaGraphAddMemFreeNode(&node, parent, NULL, 0, &data), cudaErrorInvalidValue,
		"a node that frees the host's memory");
	CHECK(cudaFree(data));
	/* Once another graph frees it, its own graph may not. */
	graph = make_half(&data);
	CHECK(cudaGraphAddMemFreeNode(&node, parent, NULL, 0, data));
	refused(cudaGraphAddMemFreeNode(&node, graph, NULL, 0, data),
		"a free of what another graph frees");
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphDestroy(parent));
}

/* A child with allocations is not copied: it is the graph itself. */
static void moved(void)
{
	cudaGraph_t child = make_whole(), parent;
	cudaGraphNodeParams params = {cudaGraphNodeTypeGraph};
	cudaGraphNode_t node;
	cudaGraphExec_t exec;

	CHECK(cudaGraphCreate(&parent, 0));
	params.graph.graph = child;
	params.graph.ownership = cudaGraphChildGraphOwnershipMove;
	CHECK(cudaGraphAddNode(&node, parent, NULL, NULL, 0, &params));
	add_kernel(parent, node, (void *)twice, out, out);
	refused(cudaGraphInstantiate(&exec, child, 0), "an instance of a child");
	refused(cudaGraphDestroy(child), "the end of a child");
	exec = make_exec(parent, 0);
	for (unsigned i = 0; i < REPLAYS; i++) {
		set_seed(3 * i);
		run(exec);
		check_words(out, 12 * i, 4, "a child with memory");
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(parent));
}

static unsigned long long attribute(cudaGraphMemAttributeType which)
{
	unsigned long long value = 0;

	CHECK(cudaDeviceGetGraphMemAttribute(0, which, &value));
	return value;
}

static void counted(void)
{
	unsigned long long zero = 0, one = 1, reserved;
	unsigned *data;
	cudaGraph_t graph = make_half(&data);
	cudaGraphExec_t exec = make_exec(graph, 0);

	run(exec);
	reserved = attribute(cudaGraphMemAttrReservedMemCurrent);
	if (attribute(cudaGraphMemAttrUsedMemCurrent) < BYTES || reserved < BYTES)
		FAIL("live memory is not counted");
	CHECK(cudaDeviceGraphMemTrim(0));
	check_words(data, 0, 1, "live memory after a trim");
	CHECK(cudaFree(data));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaDeviceGraphMemTrim(0));
	if (attribute(cudaGraphMemAttrUsedMemCurrent) != 0)
		FAIL("%llu bytes in use by no graph", attribute(cudaGraphMemAttrUsedMemCurrent));
	if (attribute(cudaGraphMemAttrReservedMemCurrent) > reserved ||
		attribute(cudaGraphMemAttrReservedMemHigh) < BYTES)
		FAIL("a trim leaves more than there was");
	CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
	CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &zero));
	refused(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one),
		"a high mark that is not 0");
	refused(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero),
		"setting how much is in use");
}

/* The launch on the other stream may not overwrite memory that the first still reads. */
static void unordered(void)
{
	unsigned *data;
	cudaGraph_t graph = make_half(&data);
	cudaGraphExec_t exec = make_exec(graph, 0);

	set_seed(1);
	run(exec);
	spin<<<1, 1, 0, stream>>>(200000000);
	twice<<<16, 128, 0, stream>>>(out, data);
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaMemsetAsync(seed, 7, sizeof(*seed), other));
	CHECK(cudaGraphLaunch(exec, other));
	CHECK(cudaStreamSynchronize(other));
	CHECK(cudaStreamSynchronize(stream));
	check_words(out, 2, 2, "what was read before the free");
	check_words(data, 0x07070707, 1, "what was allocated after it");
	CHECK(cudaFree(data));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void footprint(void)
{
	cudaGraph_t graph = capture(out, 100);
	cudaGraphExec_t exec = make_exec(graph, 0);

	run(exec);
	printf(NAME ": %llu of %u bytes\n", attribute(cudaGraphMemAttrUsedMemCurrent),
		100 * 11 * (BYTES / 4));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&seed, sizeof(*seed)));
	CHECK(cudaMalloc(&out, BYTES));
	CHECK(cudaMallocHost(&results, BYTES));
	set_seed(0);
	if (argc > 1 && !strcmp(argv[1], "unordered")) {
		unordered();
	} else if (argc > 1 && !strcmp(argv[1], "footprint")) {
		footprint();
	} else {
		counted();
		nodes();
		captured();
		updated();
		outlives();
		freed_by_launch();
		restricted();
		moved();
	}
	CHECK(cudaFreeHost(results));
	CHECK(cudaFree(out));
	CHECK(cudaFree(seed));
	CHECK(cudaStreamDestroy(other));
	CHECK(cudaStreamDestroy(stream));
	printf(NAME ": ok\n");
	return 0;
}
