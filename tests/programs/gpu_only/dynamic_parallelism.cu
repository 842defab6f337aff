/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels that launch kernels, by the GPU's runtime: a sum over a tree, level after level; tail
 * and detached launches; many parents in a row; graphs. Streams and events wait for the children.
 *
 * Runs: on a GPU
 * Builds with: -rdc=true -lcudadevrt
 */

#define NAME "dynamic_parallelism"
#include "../helpers/program.h"

enum {
	WORDS = 1 << 14,
	THREADS = 128,
	LAUNCHES = 30
};

static __global__ void halve(unsigned *words, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		words[i] += words[i + n];
}

/* Launches of one thread into the NULL stream run one after the other. */
static __global__ void sum(unsigned *words, unsigned n)
{
	for (n /= 2; n > 0; n /= 2)
		halve<<<(n + THREADS - 1) / THREADS, THREADS>>>(words, n);
}

static void tree(void)
{
	static unsigned host[WORDS];
	unsigned *device, want = 0, got = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		host[i] = i * 2654435761u;
		want += host[i];
	}
	CHECK(cudaMalloc(&device, sizeof(host)));
	CHECK(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
	sum<<<1, 1>>>(device, WORDS);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, device, sizeof(got), cudaMemcpyDeviceToHost));
	if (got != want)
		FAIL("the sum is %u, not %u", got, want);
	CHECK(cudaFree(device));
}

/* Spins, so that a program that does not wait for the children reads too early. */
static __global__ void add_late(unsigned *word, unsigned n)
{
	long long start = clock64();

	while (clock64() - start < 20000)
		;
	atomicAdd(word, n);
}

static __global__ void multiply(unsigned *word, unsigned n)
{
	*word *= n;
}

/* Adds 3 detached, then 4 in order; at the end of all of it, multiplies by 5. */
static __global__ void parent(unsigned *word)
{
	multiply<<<1, 1, 0, cudaStreamTailLaunch>>>(word, 5);
	add_late<<<3, 1, 0, cudaStreamFireAndForget>>>(word, 1);
	for (int i = 0; i < 2; i++)
		add_late<<<1, 2>>>(word, 1);
}

static unsigned parents(unsigned word, int n)
{
	while (n-- > 0)
		word = (word + 7) * 5;
	return word;
}

static void expect(const char *what, unsigned *device, unsigned want)
{
	unsigned got = 0;

	CHECK(cudaMemcpy(&got, device, sizeof(got), cudaMemcpyDeviceToHost));
	if (got != want)
		FAIL("%s: the word is %u, not %u", what, got, want);
}

static void in_a_row(unsigned *word, cudaStream_t stream)
{
	cudaEvent_t event;

	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaMemset(word, 0, sizeof(*word)));
	for (int i = 0; i < LAUNCHES; i++)
		parent<<<1, 1, 0, stream>>>(word);
	CHECK(cudaEventRecord(event, stream));
	CHECK(cudaEventSynchronize(event));
	expect("in a row", word, parents(0, LAUNCHES));
	CHECK(cudaEventDestroy(event));
}

/*
 * The driver does not make a parent in a graph wait for the tail launches of the parent before
 * it, natively either; a kernel without children waits for all of them.
 */
static void in_graph(unsigned *word, cudaStream_t stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 3; i++) {
		parent<<<1, 1, 0, stream>>>(word);
		multiply<<<1, 1, 0, stream>>>(word, 1);
	}
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaMemset(word, 0, sizeof(*word)));
	for (int i = 0; i < 4; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect("in a graph", word, parents(0, 12));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double start = now_s();
	cudaStream_t stream;
	unsigned *word;

	CHECK(cudaMalloc(&word, sizeof(*word)));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (long round = 0; round < options.rounds || now_s() - start < options.seconds; round++) {
		tree();
		in_a_row(word, stream);
		in_graph(word, stream);
	}
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(word));
	printf(NAME ": ok\n");
	return 0;
}
