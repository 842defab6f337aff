/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of arrays in graphs: nodes and captured copies, from and to pageable, pinned and device
 * memory and other arrays, parts of them, slices; with kernels between them that use the
 * array. Each launch uses the current contents.
 */

#define NAME "graph_arrays"
#include "../helpers/program.h"

enum {
	WIDTH = 100, /* of elements */
	HEIGHT = 60,
	DEPTH = 5,
	COUNT = WIDTH * HEIGHT,
	ROW = WIDTH * sizeof(unsigned),
	REPLAYS = 5
};

static __global__ void add(cudaSurfaceObject_t surface, unsigned by)
{
	for (unsigned y = threadIdx.y; y < HEIGHT; y += blockDim.y)
		for (unsigned x = threadIdx.x; x < WIDTH; x += blockDim.x) {
			unsigned value;

			surf2Dread(&value, surface, x * sizeof(value), y);
			value += by;
			surf2Dwrite(value, surface, x * sizeof(value), y);
		}
}

static cudaStream_t stream;
static unsigned *device, *pinned, *pageable, *box; /* the last of DEPTH slices, pageable */

static cudaArray_t new_array(size_t depth, unsigned flags)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
	cudaArray_t array;

	CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(WIDTH, HEIGHT, depth), flags));
	return array;
}

static void fill(unsigned *data, unsigned count, unsigned first)
{
	for (unsigned i = 0; i < count; i++)
		data[i] = first + 3 * i;
}

static void check_words(const unsigned *data, unsigned count, unsigned first, const char *what)
{
	for (unsigned i = 0; i < count; i++)
		if (data[i] != first + 3 * i)
			FAIL("%s: word %u is %u, not %u", what, i, data[i], first + 3 * i);
}

static cudaPitchedPtr line(unsigned *data)
{
	return make_cudaPitchedPtr(data, ROW, WIDTH, HEIGHT);
}

static cudaMemcpy3DParms copy_of(size_t width, size_t height, size_t depth)
{
	cudaMemcpy3DParms copy;

	memset(&copy, 0, sizeof(copy));
	copy.extent = make_cudaExtent(width, height, depth);
	copy.kind = cudaMemcpyDefault;
	return copy;
}

static cudaGraphNode_t add_copy(
	cudaGraph_t graph, cudaGraphNode_t after, const cudaMemcpy3DParms *copy)
{
	cudaGraphNode_t node;

	CHECK(cudaGraphAddMemcpyNode(&node, graph, &after, after ? 1 : 0, copy));
	return node;
}

/* Pageable memory, an array, another array, device memory, a slice of a third array, pageable
 * memory. */
static void nodes(void)
{
	cudaArray_t first = new_array(0, 0), second = new_array(0, 0), third = new_array(DEPTH, 0);
	cudaMemcpy3DParms copy;
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	copy = copy_of(WIDTH, HEIGHT, 1);
	copy.srcPtr = line(pageable);
	copy.dstArray = first;
	node = add_copy(graph, NULL, &copy);
	copy = copy_of(WIDTH, HEIGHT, 1);
	copy.srcArray = first;
	copy.dstArray = second;
	node = add_copy(graph, node, &copy);
	copy = copy_of(WIDTH, HEIGHT, 1);
	copy.srcArray = second;
	copy.dstPtr = line(device);
	node = add_copy(graph, node, &copy);
	copy = copy_of(WIDTH, HEIGHT, 1);
	copy.srcPtr = line(device);
	copy.dstArray = third;
	copy.dstPos.z = DEPTH - 2;
	node = add_copy(graph, node, &copy);
	copy = copy_of(WIDTH, HEIGHT, 2);
	copy.srcArray = third;
	copy.srcPos.z = DEPTH - 3;
	copy.dstPtr = line(box);
	add_copy(graph, node, &copy);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	memset(pinned, 0, COUNT * sizeof(unsigned));
	copy = copy_of(WIDTH, HEIGHT, 1);
	copy.srcPtr = line(pinned);
	copy.dstArray = third;
	copy.dstPos.z = DEPTH - 3;
	CHECK(cudaMemcpy3D(&copy));
	for (unsigned i = 0; i < REPLAYS; i++) {
		fill(pageable, COUNT, 1000 * i);
		memset(box, 0xff, 2 * COUNT * sizeof(unsigned));
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		check_words(box + COUNT, COUNT, 1000 * i, "by way of three arrays");
		for (unsigned k = 0; k < COUNT; k++)
			if (box[k] != 0)
				FAIL("the slice before: word %u is %u", k, box[k]);
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFreeArray(first));
	CHECK(cudaFreeArray(second));
	CHECK(cudaFreeArray(third));
}

/* A part of the array, not at the beginning at either end. */
static void parts(void)
{
	cudaArray_t from = new_array(0, 0), to = new_array(0, 0);
	cudaMemcpy3DParms copy = copy_of(WIDTH / 2, HEIGHT / 2, 1);
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	copy.srcArray = from;
	copy.srcPos = make_cudaPos(10, 20, 0);
	copy.dstArray = to;
	copy.dstPos = make_cudaPos(40, 30, 0);
	add_copy(graph, NULL, &copy);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	fill(pageable, COUNT, 7);
	CHECK(cudaMemcpy2DToArray(from, 0, 0, pageable, ROW, ROW, HEIGHT, cudaMemcpyHostToDevice));
	memset(pageable, 0, COUNT * sizeof(unsigned));
	CHECK(cudaMemcpy2DToArray(to, 0, 0, pageable, ROW, ROW, HEIGHT, cudaMemcpyHostToDevice));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy2DFromArray(pageable, ROW, to, 0, 0, ROW, HEIGHT, cudaMemcpyDeviceToHost));
	for (unsigned y = 0; y < HEIGHT; y++)
		for (unsigned x = 0; x < WIDTH; x++) {
			bool is_in = x >= 40 && x < 40 + WIDTH / 2 && y >= 30;
			unsigned wanted = is_in ? 7 + 3 * ((y - 10) * WIDTH + x - 30) : 0;

			if (pageable[y * WIDTH + x] != wanted)
				FAIL("a part: %u, %u is %u, not %u", x, y, pageable[y * WIDTH + x],
					wanted);
		}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFreeArray(from));
	CHECK(cudaFreeArray(to));
}

static cudaGraph_t capture(cudaArray_t array, cudaSurfaceObject_t surface, unsigned by,
	const unsigned *from, unsigned *to)
{
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemcpy2DToArrayAsync(
		array, 0, 0, from, ROW, ROW, HEIGHT, cudaMemcpyHostToDevice, stream));
	add<<<1, dim3(32, 8), 0, stream>>>(surface, by);
	CHECK(cudaMemcpy2DFromArrayAsync(
		device, ROW, array, 0, 0, ROW, HEIGHT, cudaMemcpyDeviceToDevice, stream));
	add<<<1, dim3(32, 8), 0, stream>>>(surface, by);
	CHECK(cudaMemcpy2DFromArrayAsync(
		to, ROW, array, 0, 0, ROW, HEIGHT, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static void captured(unsigned *from, unsigned *to, const char *what)
{
	cudaArray_t array = new_array(0, cudaArraySurfaceLoadStore);
	cudaResourceDesc resource;
	cudaSurfaceObject_t surface;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	memset(&resource, 0, sizeof(resource));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	graph = capture(array, surface, 50, from, to);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (unsigned i = 0; i < REPLAYS; i++) {
		fill(from, COUNT, 200 * i);
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		check_words(to, COUNT, 200 * i + 100, what);
		CHECK(cudaMemcpy(to, device, COUNT * sizeof(unsigned), cudaMemcpyDeviceToHost));
		check_words(to, COUNT, 200 * i + 50, "the GPU's memory in between");
	}
	/* The same graph with other kernel arguments. */
	graph = capture(array, surface, 60, from, to);
	cudaGraphExecUpdateResultInfo info;
	CHECK(cudaGraphExecUpdate(exec, graph, &info));
	CHECK(cudaGraphDestroy(graph));
	fill(from, COUNT, 9);
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	check_words(to, COUNT, 9 + 120, "after an update");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaDestroySurfaceObject(surface));
	CHECK(cudaFreeArray(array));
}

/* Copies that exceed the array. */
static void refused(void)
{
	cudaArray_t array = new_array(0, 0);
	cudaMemcpy3DParms copy = copy_of(WIDTH, HEIGHT, 1);
	cudaGraphNode_t node;
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	copy.srcPtr = line(device);
	copy.dstArray = array;
	copy.dstPos = make_cudaPos(1, 0, 0);
	if (cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &copy) == cudaSuccess)
		FAIL("a copy that leaves the array is not refused");
	cudaGetLastError();
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaFreeArray(array));
}

int main(void)
{
	unsigned *more;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&device, COUNT * sizeof(unsigned)));
	CHECK(cudaMallocHost(&pinned, COUNT * sizeof(unsigned)));
	CHECK(cudaMallocHost(&more, COUNT * sizeof(unsigned)));
	pageable = (unsigned *)malloc(COUNT * sizeof(unsigned));
	box = (unsigned *)malloc(DEPTH * COUNT * sizeof(unsigned));
	if (!pageable || !box)
		FAIL("no memory");
	nodes();
	parts();
	captured(pinned, more, "captured, pinned memory");
	captured(pageable, box, "captured, pageable memory");
	refused();
	free(box);
	free(pageable);
	CHECK(cudaFreeHost(more));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	printf(NAME ": ok\n");
	return 0;
}
