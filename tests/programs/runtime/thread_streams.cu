/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A default stream for every host thread: no call names a stream, no thread waits for another's
 * work, and the legacy stream still waits for all of them.
 * Builds with: --default-stream per-thread
 */

#define NAME "thread_streams"
#include <pthread.h>

#include "../helpers/program.h"

enum {
	THREADS = 4,
	COUNT = 2048,
	ROUNDS = 6
};

static int *shared_totals;

static __global__ void hash(unsigned *data, unsigned round)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	data[i] = (data[i] ^ round) * 2654435761u + i;
}

static __global__ void note(int *totals, int who)
{
	totals[who]++;
}

static void *work(void *arg)
{
	int who = (int)(size_t)arg;
	unsigned *host = (unsigned *)malloc(COUNT * sizeof(unsigned)), *data = NULL;
	cudaEvent_t end;

	CHECK(cudaMalloc(&data, COUNT * sizeof(unsigned)));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaMemsetAsync(data, who, COUNT * sizeof(unsigned)));
	for (unsigned round = 0; round < ROUNDS; round++)
		hash<<<COUNT / 128, 128>>>(data, round);
	note<<<1, 1>>>(shared_totals, who);
	CHECK(cudaEventRecord(end));
	CHECK(cudaMemcpyAsync(host, data, COUNT * sizeof(unsigned), cudaMemcpyDeviceToHost));
	/* Stream 0 is this thread's default stream here. */
	CHECK(cudaStreamSynchronize(0));
	CHECK(cudaEventQuery(end));
	for (unsigned i = 0; i < COUNT; i++) {
		unsigned want = (unsigned)who * 0x01010101u;

		for (unsigned round = 0; round < ROUNDS; round++)
			want = (want ^ round) * 2654435761u + i;
		if (host[i] != want)
			FAIL("thread %d, element %u is %#x, not %#x", who, i, host[i], want);
	}
	CHECK(cudaEventDestroy(end));
	CHECK(cudaFree(data));
	free(host);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int got[THREADS], *totals = NULL;

	CHECK(cudaMalloc(&totals, sizeof(got)));
	CHECK(cudaMemsetAsync(totals, 0, sizeof(got)));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	shared_totals = totals;
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		note<<<1, 1, 0, cudaStreamLegacy>>>(totals, i);
	CHECK(cudaMemcpyAsync(got, totals, sizeof(got), cudaMemcpyDeviceToHost, cudaStreamLegacy));
	CHECK(cudaStreamSynchronize(cudaStreamLegacy));
	for (int i = 0; i < THREADS; i++)
		if (got[i] != 2)
			FAIL("thread %d is noted %d times, not twice", i, got[i]);
	CHECK(cudaFree(totals));
	printf(NAME ": ok\n");
	return 0;
}
