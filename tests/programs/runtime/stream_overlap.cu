/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Work in pieces over several streams of different priorities: each piece is copied in, computed
 * in two kernels, copied out, and joined by events; twice as many rounds as buffers, so that each
 * buffer is waited for.
 */

#define NAME "stream_overlap"
#include "../helpers/program.h"

enum {
	STREAMS = 4,
	PIECES = 16,
	PIECE = 4096,
	THREADS = 128
};

static __global__ void square(int *data)
{
	int i = blockIdx.x * THREADS + threadIdx.x;

	data[i] *= data[i];
}

static __global__ void add_index(int *data, int first)
{
	int i = blockIdx.x * THREADS + threadIdx.x;

	data[i] += first + i;
}

/* Sums the results of the streams, once all have finished the round. */
static __global__ void add_up(const int *data, int n, unsigned *sum)
{
	unsigned mine = 0;

	for (int i = threadIdx.x; i < n; i += THREADS)
		mine += (unsigned)data[i];
	atomicAdd(sum, mine);
}

static void make_streams(cudaStream_t *streams)
{
	int least = 0, most = 0;

	CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
	if (most > least)
		FAIL("the highest priority, %d, is below the lowest, %d", most, least);
	for (int i = 0; i < STREAMS; i++) {
		int wanted = i % 2 ? most : least, priority = 1;
		unsigned flags = 0;

		CHECK(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, wanted));
		CHECK(cudaStreamGetPriority(streams[i], &priority));
		CHECK(cudaStreamGetFlags(streams[i], &flags));
		if (priority != wanted || flags != cudaStreamNonBlocking)
			FAIL("stream %d has priority %d and flags %u", i, priority, flags);
	}
}

static void run_pieces(cudaStream_t *streams, int *data, int *host)
{
	for (int i = 0; i < PIECES; i++) {
		cudaStream_t stream = streams[i % STREAMS];
		int *buffer = data + i % STREAMS * PIECE, *piece = host + i * PIECE;

		CHECK(cudaMemcpyAsync(
			buffer, piece, PIECE * sizeof(int), cudaMemcpyHostToDevice, stream));
		square<<<PIECE / THREADS, THREADS, 0, stream>>>(buffer);
		add_index<<<PIECE / THREADS, THREADS, 0, stream>>>(buffer, i * PIECE);
		CHECK(cudaMemcpyAsync(
			piece, buffer, PIECE * sizeof(int), cudaMemcpyDeviceToHost, stream));
	}
}

static unsigned join(cudaStream_t *streams, const int *data)
{
	unsigned sum = 0, *total = NULL;
	cudaEvent_t done;

	CHECK(cudaMalloc(&total, sizeof(*total)));
	CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	CHECK(cudaMemsetAsync(total, 0, sizeof(*total), streams[0]));
	for (int i = 1; i < STREAMS; i++) {
		CHECK(cudaEventRecord(done, streams[i]));
		CHECK(cudaStreamWaitEvent(streams[0], done, 0));
	}
	add_up<<<1, THREADS, 0, streams[0]>>>(data, STREAMS * PIECE, total);
	CHECK(cudaMemcpyAsync(&sum, total, sizeof(sum), cudaMemcpyDeviceToHost, streams[0]));
	CHECK(cudaStreamSynchronize(streams[0]));
	CHECK(cudaEventDestroy(done));
	CHECK(cudaFree(total));
	return sum;
}

int main(void)
{
	cudaStream_t streams[STREAMS];
	unsigned want = 0, sum;
	int *data = NULL, *host = NULL;

	CHECK(cudaMalloc(&data, STREAMS * PIECE * sizeof(int)));
	CHECK(cudaMallocHost(&host, PIECES * PIECE * sizeof(int)));
	for (int i = 0; i < PIECES * PIECE; i++)
		host[i] = i % 1000 - 500;
	make_streams(streams);
	run_pieces(streams, data, host);
	sum = join(streams, data);
	for (int i = 0; i < PIECES * PIECE; i++) {
		int x = i % 1000 - 500, result = x * x + i;

		if (host[i] != result)
			FAIL("element %d is %d, not %d", i, host[i], result);
		if (i >= (PIECES - STREAMS) * PIECE)
			want += (unsigned)result;
	}
	if (sum != want)
		FAIL("the sum of the last pieces is %u, not %u", sum, want);
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	CHECK(cudaFree(data));
	CHECK(cudaFreeHost(host));
	printf(NAME ": ok\n");
	return 0;
}
