/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registered private memory that kernels use in place through its device pointer: memory of
 * malloc(), of the heap, static variables; while threads write beside it, with a child.
 */

#define NAME "registered_private"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/program.h"

#define N (1 << 16)
#define BYTES (N * sizeof(int))

static __global__ void add(int *x, int n, int what)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] += what;
}

static int *device_pointer(int *x)
{
	int *device = NULL;

	CHECK(cudaHostGetDevicePointer((void **)&device, x, 0));
	return device;
}

static void expect(const int *x, int n, int first, const char *what)
{
	for (int i = 0; i < n; i++)
		if (x[i] != first + i)
			FAIL("%s: element %d is %d", what, i, x[i]);
}

/* `x' has the values from `first' on. */
static void work(int *x, int n, int first, const char *what)
{
	int *device = device_pointer(x);

	add<<<(n + 255) / 256, 256>>>(device, n, 5);
	CHECK(cudaDeviceSynchronize());
	expect(x, n, first + 5, what);
	for (int i = 0; i < n; i++)
		x[i]++;
	add<<<(n + 255) / 256, 256>>>(device_pointer(x + 1) - 1, n, 4);
	CHECK(cudaDeviceSynchronize());
	expect(x, n, first + 10, what);
}

static void count(int *x, int n, int first)
{
	for (int i = 0; i < n; i++)
		x[i] = first + i;
}

/* Neighbours on the first and last page keep their bytes. */
static void one(int *before, int *x, int n, int *behind, const char *what)
{
	cudaPointerAttributes is;

	*before = 1;
	*behind = 2;
	count(x, n, 3);
	CHECK(cudaHostRegister(x, n * sizeof(int), cudaHostRegisterMapped));
	work(x, n, 3, what);
	CHECK(cudaPointerGetAttributes(&is, x + 3));
	if (is.hostPointer != x + 3 || is.devicePointer != device_pointer(x) + 3)
		FAIL("%s: attributes", what);
	*before += 4;
	*behind += 4;
	CHECK(cudaHostUnregister(x));
	expect(x, n, 13, what);
	if (*before != 5 || *behind != 6)
		FAIL("%s: its neighbours", what);
}

static void kinds(void)
{
	static int x[N + 2];
	int *heap = (int *)malloc(1002 * sizeof(int));
	int *large = (int *)malloc(BYTES * 16 + 2 * sizeof(int));

	one(x, x + 1, N, x + N + 1, "static");
	one(heap, heap + 1, 1000, heap + 1001, "heap");
	one(large, large + 1, N * 16, large + N * 16 + 1, "large");
	free(large);
	/* New memory of the heap is empty. */
	large = (int *)calloc(N * 16, sizeof(int));
	for (int i = 0; i < N * 16; i++)
		if (large[i] != 0)
			FAIL("element %d of new memory is %d", i, large[i]);
	free(large);
	free(heap);
}

static volatile bool is_done;

static void *count_up(void *arg)
{
	volatile long *counter = (volatile long *)arg;
	long n = 0;

	for (; !is_done; n++)
		++*counter;
	return (void *)n;
}

/* No write of another thread is lost. */
static void beside_a_thread(void)
{
	long *x = (long *)calloc(1024, sizeof(long));
	pthread_t thread;
	void *n;

	is_done = false;
	if (pthread_create(&thread, NULL, count_up, x + 600) != 0)
		FAIL("no thread");
	for (int i = 0; i < 30; i++) {
		CHECK(cudaHostRegister(x, 1024 * sizeof(long), cudaHostRegisterMapped));
		count((int *)x, 1000, i);
		work((int *)x, 1000, i, "beside a thread");
		CHECK(cudaHostUnregister(x));
	}
	is_done = true;
	pthread_join(thread, &n);
	if (x[600] != (long)n)
		FAIL("%ld writes of a thread are lost", (long)n - x[600]);
	free(x);
}

/* The child has a copy; the parent and the GPU go on with the memory. */
static void forked(void)
{
	int *x = (int *)malloc(BYTES), *device, status = 0;
	pid_t child;

	count(x, N, 0);
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	device = device_pointer(x);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < N; i++)
			if (x[i] != i)
				_exit(1);
		memset(x, 0xff, BYTES);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		FAIL("child: %d", status);
	add<<<N / 256, 256>>>(device, N, 1);
	CHECK(cudaDeviceSynchronize());
	expect(x, N, 1, "after fork");
	CHECK(cudaHostUnregister(x));
	free(x);
}

/* Copies and a graph with both pointers. */
static void copies(void)
{
	int *x = (int *)malloc(BYTES), *device, *other;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&other, BYTES));
	count(x, N, 0);
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterDefault));
	CHECK(cudaMemcpyAsync(other, x, BYTES, cudaMemcpyHostToDevice, stream));
	device = device_pointer(x);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add<<<N / 256, 256, 0, stream>>>(other, N, 1);
	CHECK(cudaMemcpyAsync(x, other, BYTES, cudaMemcpyDeviceToHost, stream));
	add<<<N / 256, 256, 0, stream>>>(device, N, 1);
	CHECK(cudaMemcpyAsync(other, device, BYTES, cudaMemcpyDefault, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect(x, N, 4, "graph");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(other));
	CHECK(cudaStreamDestroy(stream));
	free(x);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		kinds();
		beside_a_thread();
		forked();
		copies();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
