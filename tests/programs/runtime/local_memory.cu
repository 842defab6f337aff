/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels whose threads have more and more local memory, up to 24 KiB: a GPU has it for all
 * threads at once, and grows it when a kernel needs more. `local_memory slowly' loads them all,
 * prints a line and launches them after a second.
 */

#define NAME "local_memory"
#include <string.h>
#include <unistd.h>

#include "../helpers/program.h"

enum {
	THREADS = 256,
	SLOWLY_S = 1
};

/* Sorts its own numbers by counting, which registers cannot hold. */
template <int WORDS> static __global__ void count(unsigned *sums)
{
	unsigned counts[WORDS], thread = blockIdx.x * blockDim.x + threadIdx.x, state = thread;
	unsigned sum = 0;

	for (int i = 0; i < WORDS; i++)
		counts[i] = 0;
	for (int i = 0; i < 2 * WORDS; i++) {
		state = state * 1664525u + 1013904223u;
		counts[(state >> 8) % WORDS]++;
	}
	for (int i = 0; i < WORDS; i++)
		sum = sum * 31 + counts[i] * (unsigned)(i + 1);
	sums[thread] = sum;
}

static unsigned expected(unsigned thread, unsigned words)
{
	unsigned *counts = (unsigned *)calloc(words, sizeof(*counts)), state = thread, sum = 0;

	for (unsigned i = 0; i < 2 * words; i++) {
		state = state * 1664525u + 1013904223u;
		counts[(state >> 8) % words]++;
	}
	for (unsigned i = 0; i < words; i++)
		sum = sum * 31 + counts[i] * (i + 1);
	free(counts);
	return sum;
}

template <int WORDS> static void load(void)
{
	cudaFuncAttributes attributes;

	CHECK(cudaFuncGetAttributes(&attributes, count<WORDS>));
	if (attributes.localSizeBytes < WORDS * sizeof(unsigned)) {
		printf(NAME ": %d words, but %zu bytes\n", WORDS, attributes.localSizeBytes);
		exit(1);
	}
}

template <int WORDS> static void run(unsigned *sums)
{
	static unsigned host[THREADS];

	count<WORDS><<<THREADS / 64, 64>>>(sums);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host, sums, sizeof(host), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < THREADS; i++)
		if (host[i] != expected(i, WORDS)) {
			printf(NAME ": %d words, thread %u: %u, want %u\n", WORDS, i, host[i],
				expected(i, WORDS));
			exit(1);
		}
}

int main(int argc, char **argv)
{
	bool is_slow = argc > 1 && !strcmp(argv[1], "slowly");
	unsigned *sums;

	CHECK(cudaMalloc(&sums, THREADS * sizeof(*sums)));
	load<128>();
	load<700>();
	load<1500>();
	load<6000>();
	if (is_slow) {
		printf(NAME ": loaded\n");
		fflush(stdout);
		sleep(SLOWLY_S);
	}
	run<128>(sums);
	run<1500>(sums);
	run<700>(sums);
	run<6000>(sums);
	CHECK(cudaFree(sums));
	printf(NAME ": ok\n");
	return 0;
}
