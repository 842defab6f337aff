/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes on after a GPU fault (MPS_ON_FAULT=continue). Reads orders from standard input, a line each,
 * and answers each with a line: the error, or what is wrong.
 *
 *   fault    launches a store to unmapped memory with work behind it, and waits
 *   spin     launches a kernel that runs until `stop'
 *   stop     ends it
 *   wait     waits for all work
 *   graph    launches a graph with a host function, whose kernel stores to unmapped memory
 *   compute  uses everything that it has, and checks the results
 *   work     computes something that a fault may meet at any moment
 *
 * Runs: for a test of its own
 */

#define NAME "continues"
#include "../helpers/program.h"

#define N 1024
#define NOWHERE 0x100000000000ULL

#define TRY(call)                                                                                  \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		(void)cudaGetLastError();                                                          \
		if (error_ != cudaSuccess)                                                         \
			return error_;                                                             \
	} while (0)

static int *data, *mapped, *flag, *flag_there;
static cudaStream_t stream, other;
static cudaEvent_t before, behind;
static cudaGraphExec_t adding;
static volatile int n_functions, n_callbacks, told;

static __global__ void store(int *where)
{
	*where = 1;
}

static __global__ void fill(int *values, int value)
{
	values[threadIdx.x] = value + threadIdx.x;
}

static __global__ void add(int *values, int value)
{
	values[threadIdx.x] += value;
}

static __global__ void spin(volatile int *until)
{
	while (*until == 0)
		;
}

static void CUDART_CB called(void *arg)
{
	n_functions += *(int *)arg;
}

static void CUDART_CB called_back(cudaStream_t, cudaError_t status, void *)
{
	told = status;
	n_callbacks++;
}

static void capture_graph(cudaGraphExec_t *exec, int *where, bool calls)
{
	static int one = 1;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	if (where == data)
		add<<<1, N, 0, stream>>>(where, 1);
	else
		store<<<1, 1, 0, stream>>>(where);
	if (calls)
		CHECK(cudaLaunchHostFunc(stream, called, &one));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
}

static void set_up(void)
{
	CHECK(cudaMalloc(&data, N * sizeof(int)));
	CHECK(cudaHostAlloc(&mapped, N * sizeof(int), cudaHostAllocMapped));
	CHECK(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer(&flag_there, flag, 0));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&before));
	CHECK(cudaEventCreate(&behind));
	capture_graph(&adding, data, false);
	/* Code is not loaded beside kernels that do not end. */
	*flag = 1;
	spin<<<1, 1>>>(flag_there);
	store<<<1, 1>>>(data);
	add<<<1, N>>>(data, 1);
	fill<<<1, N>>>(data, 7);
	CHECK(cudaDeviceSynchronize());
}

/* All of it is dropped: the kernels, the wait of the other stream, what follows. */
static int fault(void)
{
	static int one = 1;
	cudaError_t error;

	store<<<1, 1, 0, stream>>>((int *)NOWHERE);
	add<<<1, N, 0, stream>>>(data, 1000);
	TRY(cudaEventRecord(behind, stream));
	TRY(cudaStreamAddCallback(stream, called_back, NULL, 0));
	TRY(cudaLaunchHostFunc(stream, called, &one));
	TRY(cudaGraphLaunch(adding, stream));
	TRY(cudaStreamWaitEvent(other, behind, 0));
	add<<<1, N, 0, other>>>(data, 2000);
	error = cudaDeviceSynchronize();
	if (cudaGetLastError() != error)
		return -1;
	return error;
}

static int graph_fault(void)
{
	cudaGraphExec_t exec;

	capture_graph(&exec, (int *)NOWHERE, true);
	CHECK(cudaGraphLaunch(exec, stream));
	return cudaDeviceSynchronize();
}

static bool are(const int *values, int first)
{
	for (int i = 0; i < N; i++)
		if (values[i] != first + i)
			return false;
	return true;
}

/* 0, or the number of what is wrong. */
static int compute(void)
{
	int values[N];
	float ms;

	if (cudaDeviceSynchronize() != cudaSuccess || cudaGetLastError() != cudaSuccess)
		return -1;
	/* What was there before. */
	CHECK(cudaMemcpy(values, data, sizeof(values), cudaMemcpyDeviceToHost));
	if (!are(values, 7))
		return -2;
	if (n_functions != n_callbacks || (n_callbacks > 0 && told != cudaErrorIllegalAddress))
		return -3;
	if (cudaEventQuery(behind) != cudaSuccess)
		return -4;
	n_functions = n_callbacks = 0;
	CHECK(cudaEventRecord(before, stream));
	CHECK(cudaGraphLaunch(adding, stream));
	CHECK(cudaEventRecord(behind, stream));
	CHECK(cudaStreamWaitEvent(other, behind, 0));
	CHECK(cudaMemcpyAsync(mapped, data, N * sizeof(int), cudaMemcpyDeviceToHost, other));
	CHECK(cudaStreamSynchronize(other));
	CHECK(cudaEventSynchronize(behind));
	CHECK(cudaEventElapsedTime(&ms, before, behind));
	if (!are(mapped, 8))
		return -5;
	fill<<<1, N>>>(data, 7);
	CHECK(cudaDeviceSynchronize());
	return 0;
}

/* Without an error, nothing was dropped. */
static int work(void)
{
	fill<<<1, N, 0, stream>>>(data, 100);
	TRY(cudaGetLastError());
	add<<<1, N, 0, stream>>>(data, 1);
	TRY(cudaGetLastError());
	TRY(cudaGraphLaunch(adding, stream));
	TRY(cudaEventRecord(behind, stream));
	TRY(cudaStreamWaitEvent(other, behind, 0));
	TRY(cudaMemcpyAsync(mapped, data, N * sizeof(int), cudaMemcpyDeviceToHost, other));
	TRY(cudaStreamSynchronize(other));
	if (!are(mapped, 102))
		return -5;
	fill<<<1, N>>>(data, 7);
	TRY(cudaDeviceSynchronize());
	return 0;
}

int main(void)
{
	char order[32];

	set_up();
	printf("ready\n");
	fflush(stdout);
	while (fgets(order, sizeof(order), stdin)) {
		int answer = 0;

		if (!strcmp(order, "fault\n"))
			answer = fault();
		else if (!strcmp(order, "graph\n"))
			answer = graph_fault();
		else if (!strcmp(order, "spin\n"))
			*flag = 0, spin<<<1, 1, 0, stream>>>(flag_there);
		else if (!strcmp(order, "work\n"))
			answer = work();
		else if (!strcmp(order, "stop\n"))
			*(volatile int *)flag = 1;
		else if (!strcmp(order, "wait\n"))
			answer = cudaDeviceSynchronize(), (void)cudaGetLastError();
		else
			answer = compute();
		printf("%d\n", answer);
		fflush(stdout);
	}
	printf(NAME ": ok\n");
	return 0;
}
