/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Constants that are written from the host in each way: copies, fills, and copies and fills in
 * graphs. The pauses give the service time to make the objects again: a kernel sees what was
 * written, and copies to the host read it.
 */

#define NAME "constants"
#include "../helpers/program.h"

enum {
	N = 16,
	PAUSE_US = 20000,
};

__constant__ int table[N] = {1, 2, 3};
__constant__ int other = 7;
static __constant__ char letters[5] = {'a', 'b', 'c', 'd', 'e'};

static __global__ void look(int *out)
{
	out[threadIdx.x] = table[threadIdx.x];
	if (threadIdx.x > 0)
		return;
	out[N] = other;
	for (int i = 0; i < 5; i++)
		out[N + 1 + i] = letters[i];
}

static int *out;
static int want[N], want_other = 7;
static char want_letters[6] = "abcde";

static void expect(const char *when)
{
	int got[N + 6], back[N];

	usleep(PAUSE_US);
	look<<<1, N>>>(out);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpyFromSymbol(back, table, sizeof(back)));
	for (int i = 0; i < N; i++) {
		if (got[i] == want[i] && back[i] == want[i])
			continue;
		printf(NAME ": %s: %d is %d for a kernel and %d for the host, not %d\n", when, i,
			got[i], back[i], want[i]);
		exit(1);
	}
	for (int i = 0; i < 5; i++)
		if (got[N + 1 + i] != want_letters[i]) {
			printf(NAME ": %s: letter %d is %d\n", when, i, got[N + 1 + i]);
			exit(1);
		}
	if (got[N] != want_other) {
		printf(NAME ": %s: the other one is %d\n", when, got[N]);
		exit(1);
	}
	usleep(PAUSE_US);
}

/* A graph with a copy to a constant and a fill of it. */
static cudaGraphExec_t make_graph(int *address)
{
	static const int values[2] = {-1, -2};
	cudaMemsetParams fill = {};
	cudaGraphNode_t copy, set;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	fill.dst = address + 4;
	fill.elementSize = 4;
	fill.width = 3;
	fill.height = 1;
	fill.value = 99;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNodeToSymbol(&copy, graph, NULL, 0, table, values, sizeof(values),
		2 * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaGraphAddMemsetNode(&set, graph, &copy, 1, &fill));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

int main(void)
{
	cudaGraphExec_t exec;
	int *address = NULL;

	CHECK(cudaMalloc(&out, (N + 6) * sizeof(int)));
	for (int i = 0; i < 3; i++)
		want[i] = i + 1;
	expect("at first");
	for (int i = 0; i < N; i++)
		want[i] = 100 + i;
	CHECK(cudaMemcpyToSymbol(table, want, sizeof(want)));
	expect("after a copy");
	want[5] = want_other = 8;
	CHECK(cudaMemcpyToSymbol(other, &want_other, sizeof(want_other)));
	CHECK(cudaMemcpyToSymbol(table, &want[5], sizeof(int), 5 * sizeof(int)));
	memcpy(want_letters, "vwxyz", 5);
	CHECK(cudaMemcpyToSymbol(letters, want_letters, 5));
	expect("after copies of parts");
	CHECK(cudaGetSymbolAddress((void **)&address, table));
	CHECK(cudaMemset(address + 8, 0, 2 * sizeof(int)));
	want[8] = want[9] = 0;
	CHECK(cudaMemcpy2D(address + 10, 8, want, 8, 4, 2, cudaMemcpyHostToDevice));
	want[10] = want[0];
	want[12] = want[2];
	expect("after a fill and a copy of rows");
	exec = make_graph(address);
	expect("with a graph");
	CHECK(cudaGraphLaunch(exec, 0));
	want[2] = -1;
	want[3] = -2;
	want[4] = want[5] = want[6] = 99;
	expect("after a graph");
	CHECK(cudaMemcpyToSymbol(table, want, sizeof(int), 2 * sizeof(int)));
	CHECK(cudaGraphLaunch(exec, 0));
	expect("after the graph again");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFree(out));
	printf(NAME ": ok\n");
	return 0;
}
