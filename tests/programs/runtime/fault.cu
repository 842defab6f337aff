/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A kernel that writes to unmapped memory. Succeeds if the program gets the same error as
 * without a service: error 700, from that call on and permanently. `fault near' writes past
 * its own memory, and `fault at ADDRESS' there; `fault prints' prints first; `fault graph' writes
 * in a graph.
 *
 * Runs: for a test of its own
 */

#define NAME "fault"
#include "../helpers/entry.h"

/* No driver puts an allocation here, and neither does the service for any client. */
#define NOWHERE 0x100000000000ULL
/* The only allocation of the program, one page. */
#define BEHIND (1ULL << 30)

static __global__ void store(int *where)
{
	*where = 1;
}

static __global__ void print_and_store(int *where)
{
	printf("thread %d stores\n", threadIdx.x);
	*where = 1;
}

static void expect(const char *what, cudaError_t error)
{
	if (error == cudaErrorIllegalAddress)
		return;
	printf(NAME ": %s returned %d (%s), not 700\n", what, error, cudaGetErrorString(error));
	exit(1);
}

static cudaGraph_t graph, other;
static cudaGraphExec_t exec;
static decltype(&cuGraphExecUpdate_v2) update;

static void store_in_graph(void)
{
	cudaStream_t stream;

	update = (decltype(update))entry("cuGraphExecUpdate");
	CHECK(cudaGraphCreate(&other, 0));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	store<<<1, 1, 0, stream>>>((int *)NOWHERE);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
}

/* The runtime does not ask the driver after a fault. */
static void update_graph(void)
{
	CUgraphExecUpdateResultInfo info;

	expect("cuGraphExecUpdate", (cudaError_t)update(exec, graph, &info));
	expect("cuGraphExecUpdate, of another graph,", (cudaError_t)update(exec, other, &info));
}

int main(int argc, char **argv)
{
	void *more = NULL;
	int *data = NULL;

	CHECK(cudaMalloc(&data, 4096));
	if (argc > 1 && !strcmp(argv[1], "prints"))
		print_and_store<<<1, 2>>>((int *)NOWHERE);
	else if (argc > 1 && !strcmp(argv[1], "near"))
		store<<<1, 1>>>((int *)((char *)data + BEHIND));
	else if (argc > 2 && !strcmp(argv[1], "at"))
		store<<<1, 1>>>((int *)strtoull(argv[2], NULL, 16));
	else if (argc > 1 && !strcmp(argv[1], "graph"))
		store_in_graph();
	else
		store<<<1, 1>>>((int *)NOWHERE);
	CHECK(cudaGetLastError());
	expect("cudaDeviceSynchronize", cudaDeviceSynchronize());
	expect("cudaDeviceSynchronize, again,", cudaDeviceSynchronize());
	expect("cudaMalloc", cudaMalloc(&more, 4096));
	expect("cudaMemset", cudaMemset(data, 0, 4096));
	if (exec)
		update_graph();
	expect("cudaGetLastError", cudaGetLastError());
	printf(NAME ": ok\n");
	return 0;
}
