/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Four host threads, each with memory and a stream, all launch at once; the NULL stream then waits
 * for the work of the blocking streams.
 */

#define NAME "threads"
#include <pthread.h>

#include "../helpers/program.h"

enum {
	THREADS = 4,
	ROUNDS = 25,
	WORDS = 4096
};

struct job {
	pthread_t thread;
	cudaStream_t stream;
	unsigned *data;
	unsigned seed;
};

static __global__ void mix(unsigned *data, unsigned seed)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	data[i] = (data[i] + seed) * 1664525u + 1013904223u;
}

static __global__ void sum(const unsigned *a, const unsigned *b, unsigned *to)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	to[i] = a[i] + b[i];
}

static unsigned expected(unsigned seed)
{
	unsigned value = 0;

	for (int round = 0; round < ROUNDS; round++)
		value = (value + seed) * 1664525u + 1013904223u;
	return value;
}

static void *job_run(void *data)
{
	struct job *job = (struct job *)data;

	CHECK(cudaStreamCreate(&job->stream));
	CHECK(cudaMalloc(&job->data, WORDS * sizeof(unsigned)));
	CHECK(cudaMemsetAsync(job->data, 0, WORDS * sizeof(unsigned), job->stream));
	for (int round = 0; round < ROUNDS; round++)
		mix<<<WORDS / 256, 256, 0, job->stream>>>(job->data, job->seed);
	CHECK(cudaGetLastError());
	return NULL;
}

static void verify(const unsigned *data, unsigned want, const char *what)
{
	static unsigned host[WORDS];

	CHECK(cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < WORDS; i++) {
		if (host[i] == want)
			continue;
		printf(NAME ": %s, word %d is %u, not %u\n", what, i, host[i], want);
		exit(1);
	}
}

int main(void)
{
	static struct job jobs[THREADS];
	unsigned *total = NULL;

	CHECK(cudaMalloc(&total, WORDS * sizeof(unsigned)));
	for (int i = 0; i < THREADS; i++) {
		jobs[i].seed = 17u * (unsigned)i + 3u;
		pthread_create(&jobs[i].thread, NULL, job_run, &jobs[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(jobs[i].thread, NULL);
	sum<<<WORDS / 256, 256>>>(jobs[0].data, jobs[3].data, total);
	CHECK(cudaGetLastError());
	verify(total, expected(jobs[0].seed) + expected(jobs[3].seed), "the sum");
	for (int i = 0; i < THREADS; i++) {
		verify(jobs[i].data, expected(jobs[i].seed), "a thread's own");
		CHECK(cudaFree(jobs[i].data));
		CHECK(cudaStreamDestroy(jobs[i].stream));
	}
	CHECK(cudaFree(total));
	printf(NAME ": ok\n");
	return 0;
}
