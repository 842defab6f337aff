/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that has memory and nothing else: small and large pieces on each GPU, pinned memory
 * that the GPU also fills, and copies between all of them. Every word is a function of the round,
 * and each round checks what the last one left.
 *
 *     resident ROUNDS       so many rounds, one after the other
 *     resident --requests   a round for each line of the standard input; "ready" and "round N" tell
 *                           how far it is, and a line at the end which call took longest
 */

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME "resident"
#define CHECK(call) (call_begin(), call_end((call), #call, __LINE__))

#define KIB ((size_t)1 << 10)

enum {
	PIECES = 6
};

static const size_t sizes[PIECES] = {512, 4096, 100 * KIB, 3000 * KIB, 2048 * KIB, 768};

static struct {
	CUdeviceptr device[PIECES];
	uint32_t *pinned[PIECES];
	uint32_t *pageable[PIECES];
} memory;

static struct {
	int64_t begin_us, longest_us;
	const char *longest;
} calls = {.longest = "none"};

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)1000000 + now.tv_nsec / 1000;
}

static void call_begin(void)
{
	calls.begin_us = now_us();
}

static void call_end(CUresult got, const char *what, int line)
{
	const int64_t us = now_us() - calls.begin_us;

	if (us > calls.longest_us) {
		calls.longest_us = us;
		calls.longest = what;
	}
	if (got == CUDA_SUCCESS)
		return;
	printf(NAME ": line %d: %s returned %d\n", line, what, got);
	exit(1);
}

static uint32_t word_of(unsigned round, unsigned piece, size_t i)
{
	return round * 2654435761u + piece * 40503u + (uint32_t)i;
}

static void fill(uint32_t *words, unsigned round, unsigned piece)
{
	for (size_t i = 0; i < sizes[piece] / 4; i++)
		words[i] = word_of(round, piece, i);
}

static void check(const uint32_t *words, unsigned round, unsigned piece, const char *where)
{
	for (size_t i = 0; i < sizes[piece] / 4; i++) {
		if (words[i] == word_of(round, piece, i))
			continue;
		printf(NAME ": round %u, piece %u: word %zu %s is wrong\n", round, piece, i, where);
		exit(1);
	}
}

static void allocate(void)
{
	for (unsigned i = 0; i < PIECES; i++) {
		CHECK(cuMemAlloc(&memory.device[i], sizes[i]));
		CHECK(cuMemAllocHost((void **)&memory.pinned[i], sizes[i]));
		memory.pageable[i] = malloc(sizes[i]);
		fill(memory.pinned[i], 0, i);
		CHECK(cuMemcpyHtoD(memory.device[i], memory.pinned[i], sizes[i]));
	}
}

/* A piece that comes and goes, at addresses that others have had. */
static void pass_through(unsigned round, unsigned piece)
{
	CUdeviceptr other;

	CHECK(cuMemAlloc(&other, sizes[piece]));
	CHECK(cuMemcpyHtoDAsync(other, memory.pinned[piece], sizes[piece], NULL));
	CHECK(cuMemcpyDtoDAsync(memory.device[piece], other, sizes[piece], NULL));
	CHECK(cuMemcpyDtoHAsync(memory.pinned[piece], other, sizes[piece], NULL));
	CHECK(cuStreamSynchronize(NULL));
	CHECK(cuMemFree(other));
	check(memory.pinned[piece], round, piece, "in pinned memory");
}

static void run_round(unsigned round)
{
	for (unsigned i = 0; i < PIECES; i++) {
		CHECK(cuMemcpyDtoH(memory.pageable[i], memory.device[i], sizes[i]));
		check(memory.pageable[i], round - 1, i, "on the GPU");
		check(memory.pinned[i], round - 1, i, "in pinned memory");
		fill(memory.pinned[i], round, i);
		pass_through(round, i);
	}
}

int main(int argc, char **argv)
{
	bool asks = argc > 1 && strcmp(argv[1], "--requests") == 0;
	unsigned n = argc > 1 && !asks ? (unsigned)atoi(argv[1]) : 20;
	CUcontext context;
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	allocate();
	calls.longest_us = 0;
	if (asks)
		printf("ready\n");
	for (unsigned i = 1; asks ? fgets(line, sizeof(line), stdin) != NULL : i <= n; i++) {
		run_round(i);
		if (asks)
			printf("round %u\n", i);
	}
	if (asks)
		printf("longest: %d us, %s\n", (int)calls.longest_us, calls.longest);
	for (unsigned i = 0; i < PIECES; i++) {
		CHECK(cuMemFree(memory.device[i]));
		CHECK(cuMemFreeHost(memory.pinned[i]));
		free(memory.pageable[i]);
	}
	printf(NAME ": ok\n");
	return 0;
}
