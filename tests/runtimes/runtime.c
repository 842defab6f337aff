/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program for every CUDA runtime from 11 on: C with that runtime's headers. It registers the
 * kernels of kernels.cu by hand, like the code from nvcc. The runtime then requests the driver's
 * functions for its version, and its tables. tests/system/test_runtimes.py builds and runs it;
 * KERNELS is the path of the fatbin.
 */

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef KERNELS
#define KERNELS "/dev/null" /* only linters read this */
#endif

#define NAME "runtime"
#define CHECK(call) check((call), #call, __LINE__)

enum {
	COUNT = 1000,
	SIDE = 8,
	GREENS = 100,
	BYTES = COUNT * (int)sizeof(int)
};

/* ---- what nvcc writes into each program */

__asm__(".section .nv_fatbin,\"a\"\n"
	".balign 8\n"
	"fatbin: .incbin \"" KERNELS "\"\n"
	".previous\n");
extern const unsigned long long fatbin[];

static struct {
	int magic, version;
	const void *data;
	void *unused;
} wrapper __attribute__((section(".nvFatBinSegment"))) = {0x466243b1, 1, fatbin, NULL};

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
	int thread_limit, void *tid, void *bid, void *block, void *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
	size_t size, int is_constant, int is_global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
	size_t size, int is_constant, int is_global);
char __cudaInitModule(void **handle);

/* Their addresses stand for the names of kernels and variables in the image. */
static char add, look, step, factor, counter;
static int *word; /* the address of the variable of that name, once the module is initialised */
static void **handle;

static void unregister(void)
{
	__cudaUnregisterFatBinary(handle);
}

static __attribute__((constructor)) void do_register(void)
{
	handle = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(handle, &add, "add", "add", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(handle, &look, "look", "look", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(handle, &step, "step", "step", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(handle, &factor, "factor", "factor", 0, sizeof(int), 1, 0);
	__cudaRegisterManagedVar(handle, (void **)&word, "word", "word", 0, sizeof(int), 0, 0);
	__cudaRegisterVar(handle, &counter, "counter", "counter", 0, sizeof(int), 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
	atexit(unregister);
}

/* ---- the program */

static void check(cudaError_t error, const char *what, int line)
{
	if (error == cudaSuccess)
		return;
	printf(NAME ": line %d: %s: %s (%d)\n", line, what, cudaGetErrorString(error), error);
	exit(1);
}

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	printf(NAME ": wrong: %s\n", what);
	exit(1);
}

/* sum = a + factor * b, both 0, 1, 2, ... */
static void verify(const int *sum, int times, const char *what)
{
	for (int i = 0; i < COUNT; i++)
		expect(sum[i] == times * i, what);
}

static void fill(int *data)
{
	for (int i = 0; i < COUNT; i++)
		data[i] = i;
}

static cudaError_t launch_add(const int *a, const int *b, int *sum, cudaStream_t stream)
{
	int count = COUNT;
	void *args[] = {&a, &b, &sum, &count};

	return cudaLaunchKernel(
		&add, (dim3){(COUNT + 127) / 128, 1, 1}, (dim3){128, 1, 1}, args, 0, stream);
}

static void show_device(void)
{
	struct cudaDeviceProp properties;
	int n = 0, runtime = 0, driver = 0, value = 0;

	CHECK(cudaGetDeviceCount(&n));
	CHECK(cudaRuntimeGetVersion(&runtime));
	CHECK(cudaDriverGetVersion(&driver));
	expect(n > 0, "a device");
	expect(runtime == CUDART_VERSION, "the runtime is that of the headers");
	expect(driver >= 12040, "the driver's version");
	CHECK(cudaGetDeviceProperties(&properties, 0));
	CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	expect(properties.multiProcessorCount == value && value > 0, "multiprocessors");
	expect(properties.warpSize == 32 && properties.name[0], "properties");
	CHECK(cudaSetDevice(0));
}

static void use_variables(const int *a, const int *b, int *sum)
{
	int host[COUNT], value = 3, zero = 0;
	void *address = NULL;
	size_t size = 0;

	CHECK(cudaMemcpyToSymbol(&factor, &value, sizeof(value), 0, cudaMemcpyHostToDevice));
	CHECK(cudaGetSymbolAddress(&address, &counter));
	CHECK(cudaGetSymbolSize(&size, &counter));
	expect(size == sizeof(int), "a symbol's size");
	CHECK(cudaMemcpy(address, &zero, sizeof(zero), cudaMemcpyHostToDevice));
	CHECK(launch_add(a, b, sum, 0));
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host, sum, BYTES, cudaMemcpyDeviceToHost));
	verify(host, 4, "with a factor of 3");
	CHECK(cudaMemcpyFromSymbol(&value, &counter, sizeof(value), 0, cudaMemcpyDeviceToHost));
	expect(value == (COUNT + 127) / 128, "the counter of blocks");
	value = 1;
	CHECK(cudaMemcpyToSymbol(&factor, &value, sizeof(value), 0, cudaMemcpyHostToDevice));
}

/* A __managed__ variable: the program has a pointer to it, which the runtime fills in. */
static void use_managed_variable(void)
{
	int by = 10;
	void *args[] = {&by};
	int before;

	__cudaInitModule(handle);
	before = *word;
	CHECK(cudaLaunchKernel(&step, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL));
	CHECK(cudaDeviceSynchronize());
	expect(*word == before + by, "a managed variable, changed by a kernel");
	*word = 1;
	CHECK(cudaLaunchKernel(&step, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL));
	CHECK(cudaDeviceSynchronize());
	expect(*word == 1 + by, "a managed variable, changed by both");
}

static void ask_function(void)
{
	struct cudaFuncAttributes attributes;
	int blocks = 0;

	CHECK(cudaFuncGetAttributes(&attributes, &add));
	expect(attributes.maxThreadsPerBlock >= 128, "threads of a block");
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &add, 128, 0));
	expect(blocks > 0, "occupancy");
	CHECK(cudaFuncSetAttribute(&add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
}

static void count_call(void *count)
{
	++*(int *)count;
}

static void use_streams(const int *a, const int *b, int *sum)
{
	int *pinned = NULL, calls = 0;
	cudaEvent_t begin, end;
	cudaStream_t stream, other;
	float ms = -1;

	CHECK(cudaHostAlloc((void **)&pinned, BYTES, cudaHostAllocDefault));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithPriority(&other, cudaStreamDefault, 0));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
	CHECK(cudaEventRecord(begin, stream));
	CHECK(cudaMemsetAsync(sum, 0, BYTES, stream));
	CHECK(launch_add(a, b, sum, stream));
	CHECK(cudaEventRecord(end, stream));
	CHECK(cudaStreamWaitEvent(other, end, 0));
	CHECK(cudaMemcpyAsync(pinned, sum, BYTES, cudaMemcpyDeviceToHost, other));
	CHECK(cudaLaunchHostFunc(other, count_call, &calls));
	CHECK(cudaStreamSynchronize(other));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventQuery(end));
	CHECK(cudaStreamQuery(stream));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	expect(ms >= 0 && calls == 1, "time and a host function");
	verify(pinned, 2, "in streams");
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamDestroy(other));
	CHECK(cudaFreeHost(pinned));
}

static void use_pools(const int *a, const int *b)
{
	int *sum = NULL, *host = malloc(BYTES);
	cudaMemPool_t pool;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
	CHECK(cudaMallocAsync((void **)&sum, BYTES, stream));
	CHECK(launch_add(a, b, sum, stream));
	CHECK(cudaMemcpyAsync(host, sum, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFreeAsync(sum, stream));
	CHECK(cudaStreamSynchronize(stream));
	verify(host, 2, "in memory of a pool");
	CHECK(cudaMemPoolTrimTo(pool, 0));
	CHECK(cudaStreamDestroy(stream));
	free(host);
}

static void use_graphs(const int *a, const int *b, int *sum)
{
	struct cudaKernelNodeParams params = {0};
	int count = COUNT, host[COUNT];
	void *args[] = {&a, &b, &sum, &count};
	cudaGraphNode_t kernel, copy;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemsetAsync(sum, 0, BYTES, stream));
	CHECK(launch_add(a, b, sum, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaMemcpyAsync(host, sum, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	verify(host, 2, "by a captured graph");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));

	params.func = &add;
	params.gridDim = (dim3){(COUNT + 127) / 128, 1, 1};
	params.blockDim = (dim3){128, 1, 1};
	params.kernelParams = args;
	memset(host, 0, sizeof(host));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddKernelNode(&kernel, graph, NULL, 0, &params));
	CHECK(cudaGraphAddMemcpyNode1D(
		&copy, graph, &kernel, 1, host, sum, BYTES, cudaMemcpyDeviceToHost));
	CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	verify(host, 2, "by a graph of its own nodes");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
}

static void use_textures(void)
{
	struct cudaResourceDesc resource;
	struct cudaTextureDesc description;
	struct cudaChannelFormatDesc format =
		cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned);
	int data[SIDE * SIDE], width = SIDE, *out = NULL;
	cudaTextureObject_t texture;
	cudaArray_t array;
	void *args[] = {&texture, &out, &width};

	for (int i = 0; i < SIDE * SIDE; i++)
		data[i] = 7 * i;
	memset(&resource, 0, sizeof(resource));
	memset(&description, 0, sizeof(description));
	CHECK(cudaMallocArray(&array, &format, SIDE, SIDE, 0));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, data, SIDE * sizeof(int), SIDE * sizeof(int), SIDE,
		cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
	CHECK(cudaMalloc((void **)&out, sizeof(data)));
	CHECK(cudaLaunchKernel(&look, (dim3){SIDE, 1, 1}, (dim3){SIDE, 1, 1}, args, 0, NULL));
	memset(data, 0, sizeof(data));
	CHECK(cudaMemcpy(data, out, sizeof(data), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SIDE * SIDE; i++)
		expect(data[i] == 7 * i, "read from a texture");
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(out));
}

/* A per-thread stream, whose symbols the runtime requests with a flag. */
static void *use_thread_stream(void *sum)
{
	int *a = NULL, host[COUNT];

	fill(host);
	CHECK(cudaMalloc((void **)&a, BYTES));
	CHECK(cudaMemcpyAsync(a, host, BYTES, cudaMemcpyHostToDevice, cudaStreamPerThread));
	CHECK(launch_add(a, a, sum, cudaStreamPerThread));
	CHECK(cudaMemcpyAsync(host, sum, BYTES, cudaMemcpyDeviceToHost, cudaStreamPerThread));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	verify(host, 2, "in a thread's stream");
	CHECK(cudaFree(a));
	return NULL;
}

static void use_memory(const int *a)
{
	struct cudaPointerAttributes attributes;
	size_t free_bytes = 0, total = 0;
	int *managed = NULL;

	CHECK(cudaMemGetInfo(&free_bytes, &total));
	expect(free_bytes > 0 && free_bytes <= total, "memory information");
	CHECK(cudaPointerGetAttributes(&attributes, a));
	expect(attributes.type == cudaMemoryTypeDevice && attributes.device == 0, "a pointer");
	CHECK(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
	fill(managed);
	CHECK(launch_add(managed, a, managed, NULL));
	CHECK(cudaDeviceSynchronize());
	verify(managed, 2, "in managed memory");
	CHECK(cudaFree(managed));
}

#if CUDART_VERSION >= 13010
static void use_execution_context(
	cudaExecutionContext_t context, const int *a, const int *b, int *sum)
{
	unsigned long long id = 0;
	int host[COUNT], device = -1;
	cudaStream_t stream;

	CHECK(cudaExecutionCtxGetDevice(&device, context));
	CHECK(cudaExecutionCtxGetId(context, &id));
	expect(device == 0 && id != 0, "an execution context's device and ID");
	CHECK(cudaExecutionCtxStreamCreate(&stream, context, cudaStreamNonBlocking, 0));
	CHECK(cudaMemsetAsync(sum, 0, BYTES, stream));
	CHECK(launch_add(a, b, sum, stream));
	CHECK(cudaExecutionCtxSynchronize(context));
	CHECK(cudaMemcpyAsync(host, sum, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	verify(host, 2, "in an execution context");
	CHECK(cudaStreamDestroy(stream));
}

/* More of them than can exist at a time. */
static void use_green_contexts(const int *a, const int *b, int *sum)
{
	cudaDevResource all, part, rest, its;
	cudaDevResourceDesc_t description;
	cudaExecutionContext_t context;
	unsigned n = 1;

	CHECK(cudaDeviceGetExecutionCtx(&context, 0));
	use_execution_context(context, a, b, sum);
	CHECK(cudaDeviceGetDevResource(0, &all, cudaDevResourceTypeSm));
	CHECK(cudaDevSmResourceSplitByCount(&part, &n, &all, &rest, 0, 16));
	CHECK(cudaDevResourceGenerateDesc(&description, &part, 1));
	for (int i = 0; i < GREENS; i++) {
		CHECK(cudaGreenCtxCreate(&context, description, 0, 0));
		CHECK(cudaExecutionCtxGetDevResource(context, &its, cudaDevResourceTypeSm));
		expect(its.sm.smCount == part.sm.smCount, "a green context's SMs");
		use_execution_context(context, a, b, sum);
		CHECK(cudaExecutionCtxDestroy(context));
	}
}
#endif

/* Wrong calls return their errors, and the program continues. */
static void make_errors(void)
{
	void *args[] = {NULL};
	cudaError_t error;

	error = cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){4096, 1, 1}, args, 0, NULL);
	expect(error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue,
		"a block too large");
	expect(cudaGetLastError() == error, "the last error");
	expect(cudaGetLastError() == cudaSuccess, "an error is told once");
	expect(cudaSetDevice(1000) == cudaErrorInvalidDevice, "no such device");
	cudaGetLastError();
}

static void run_all(void)
{
	int host[COUNT], *a = NULL, *b = NULL, *sum = NULL;
	pthread_t thread;

	fill(host);
	CHECK(cudaMalloc((void **)&a, BYTES));
	CHECK(cudaMalloc((void **)&b, BYTES));
	CHECK(cudaMalloc((void **)&sum, BYTES));
	CHECK(cudaMemcpy(a, host, BYTES, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, a, BYTES, cudaMemcpyDeviceToDevice));
	use_variables(a, b, sum);
	use_managed_variable();
	ask_function();
	use_streams(a, b, sum);
	use_pools(a, b);
	use_graphs(a, b, sum);
	use_textures();
	use_memory(a);
#if CUDART_VERSION >= 13010
	use_green_contexts(a, b, sum);
#endif
	make_errors();
	expect(!pthread_create(&thread, NULL, use_thread_stream, sum), "a thread");
	pthread_join(thread, NULL);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(sum));
}

int main(void)
{
	show_device();
	run_all();
	CHECK(cudaDeviceReset());
	/* After a reset everything is new, including the image. */
	run_all();
	printf(NAME ": ok\n");
	return 0;
}
