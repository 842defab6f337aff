/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocates and frees according to a trace (format: tests/traces) with cuMemAlloc(),
 * or with `async' by cuMemAllocAsync() on a stream; allocations may not overlap. With
 * a number N it pauses at its peak and N times before: it prints how many bytes are
 * live, and waits for a line. The last pause is at the end, with no allocation.
 *
 *     alloc_trace FILE plain|async [N]
 *
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "alloc_trace"
#include "../helpers/driver_program.h"

enum {
	EVENTS_MAX = 1 << 16
};

/* An allocation of `size' bytes, or the free of the `freed'th. */
struct event {
	size_t size;
	unsigned freed;
};

struct block {
	CUdeviceptr address;
	size_t size; /* 0: not allocated, or freed again */
};

static struct event events[EVENTS_MAX];
static struct block blocks[EVENTS_MAX];
static unsigned n_events, n_blocks;
static size_t live;
static CUstream stream; /* NULL: cuMemAlloc() */

static void fail(const char *what, unsigned long number)
{
	printf(NAME ": %s: %lu\n", what, number);
	exit(1);
}

static void trace_read(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned n_allocated = 0;
	char word[128];

	if (!file)
		fail("no such file", 0);
	while (fscanf(file, "%127s", word) == 1) {
		struct event *event = &events[n_events];

		if (word[0] == '#') {
			if (fscanf(file, "%*[^\n]") < 0)
				break;
			continue;
		}
		if (n_events++ == EVENTS_MAX)
			fail("more events than", EVENTS_MAX);
		if (word[0] == '-')
			event->freed = (unsigned)strtoul(word + 1, NULL, 10);
		else
			event->size = strtoull(word, NULL, 10);
		n_allocated += event->size > 0;
		if (event->size == 0 && event->freed >= n_allocated)
			fail("what was not allocated is freed by event", n_events);
	}
	(void)fclose(file);
}

/* The event after which the most bytes are live. */
static unsigned find_peak(void)
{
	size_t now = 0, most = 0;
	unsigned peak = 0, n = 0;
	size_t *sizes = calloc(n_events, sizeof(*sizes));

	for (unsigned i = 0; sizes && i < n_events; i++) {
		if (events[i].size > 0) {
			sizes[n++] = events[i].size;
			now += events[i].size;
		} else {
			now -= sizes[events[i].freed];
		}
		if (now > most) {
			most = now;
			peak = i;
		}
	}
	free(sizes);
	return peak;
}

static void allocate(size_t size)
{
	struct block *block = &blocks[n_blocks++];

	if (stream)
		CHECK(cuMemAllocAsync(&block->address, size, stream));
	else
		CHECK(cuMemAlloc(&block->address, size));
	for (unsigned i = 0; i + 1 < n_blocks; i++)
		if (blocks[i].size > 0 && blocks[i].address < block->address + size &&
			block->address < blocks[i].address + blocks[i].size)
			fail("two allocations overlap", n_blocks - 1);
	block->size = size;
	live += size;
}

static void release(struct block *block)
{
	if (block->size == 0)
		fail("freed twice", (unsigned long)(block - blocks));
	if (stream)
		CHECK(cuMemFreeAsync(block->address, stream));
	else
		CHECK(cuMemFree(block->address));
	live -= block->size;
	block->size = 0;
}

static void stand_still(void)
{
	char line[16];

	/* A pool returns free memory, if at all, after a wait. */
	CHECK(cuCtxSynchronize());
	printf("live=%zu\n", live);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void replay(unsigned n_stops)
{
	unsigned peak = find_peak(), every = n_stops > 0 ? n_events / n_stops : 0;

	for (unsigned i = 0; i < n_events; i++) {
		if (events[i].size > 0)
			allocate(events[i].size);
		else
			release(&blocks[events[i].freed]);
		if (every > 0 && (i == peak || i % every == every - 1))
			stand_still();
	}
	for (unsigned i = 0; i < n_blocks; i++)
		if (blocks[i].size > 0)
			release(&blocks[i]);
	if (every > 0)
		stand_still();
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;

	if (argc < 3) {
		fprintf(stderr, "usage: %s FILE plain|async [N]\n", argv[0]);
		return 2;
	}
	trace_read(argv[1]);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (!strcmp(argv[2], "async"))
		CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	replay(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0);
	if (stream)
		CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
