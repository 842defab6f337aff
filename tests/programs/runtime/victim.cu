/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs until it is killed: allocates, copies, sets, launches on its own streams, frees, in an order
 * that never repeats (`--seed N'). `--fork' leaves a child that has inherited every descriptor and
 * sleeps for a minute. Prints `victim: running' once its first round was right.
 *
 * Runs: for a test of its own
 */

#define NAME "victim"
#include <unistd.h>

#include "../helpers/program.h"

enum {
	SLOTS = 6,
	WORDS_MAX = 1 << 18,
	WORDS_MIN = 256
};

struct slot {
	cudaStream_t stream;
	unsigned *data;
	unsigned *host;
	unsigned words;
	unsigned value;
};

static __global__ void add(unsigned *data, unsigned words, unsigned value)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < words)
		data[i] += value;
}

static unsigned first_seed;

static unsigned random_next(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void slot_open(struct slot *slot, unsigned *state)
{
	slot->words = WORDS_MIN + random_next(state) % (WORDS_MAX - WORDS_MIN);
	slot->value = random_next(state) % 1000;
	slot->host = (unsigned *)malloc(slot->words * sizeof(unsigned));
	CHECK(cudaStreamCreateWithFlags(&slot->stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&slot->data, slot->words * sizeof(unsigned)));
	CHECK(cudaMemsetAsync(slot->data, 0, slot->words * sizeof(unsigned), slot->stream));
	add<<<(slot->words + 255) / 256, 256, 0, slot->stream>>>(
		slot->data, slot->words, slot->value);
	CHECK(cudaGetLastError());
}

static void slot_close(struct slot *slot)
{
	unsigned i;

	CHECK(cudaMemcpyAsync(slot->host, slot->data, slot->words * sizeof(unsigned),
		cudaMemcpyDeviceToHost, slot->stream));
	CHECK(cudaStreamSynchronize(slot->stream));
	for (i = 0; i < slot->words; i++) {
		if (slot->host[i] == slot->value)
			continue;
		printf(NAME ": word %u is %u, not %u (--seed %u)\n", i, slot->host[i], slot->value,
			first_seed);
		exit(1);
	}
	CHECK(cudaFree(slot->data));
	CHECK(cudaStreamDestroy(slot->stream));
	free(slot->host);
	memset(slot, 0, sizeof(*slot));
}

static void child_leave(void)
{
	if (fork())
		return;
	alarm(60);
	pause();
	_exit(0);
}

int main(int argc, char **argv)
{
	static struct slot slots[SLOTS];
	unsigned state = (unsigned)getpid();
	int leave_child = 0;
	long round;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--fork"))
			leave_child = 1;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			state = (unsigned)atol(argv[++i]);
	}
	first_seed = state;
	for (round = 0;; round++) {
		struct slot *slot = &slots[random_next(&state) % SLOTS];

		if (slot->data)
			slot_close(slot);
		slot_open(slot, &state);
		if (round)
			continue;
		if (leave_child)
			child_leave();
		printf(NAME ": running\n");
		fflush(stdout);
	}
}
