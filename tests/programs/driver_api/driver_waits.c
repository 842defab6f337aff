/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which calls of the driver wait for all work on the GPU: beside a stream that waits for
 * a semaphore of the host, or a kernel that does, they return only after it is written. A
 * server must make no such call while a stream is blocked, because its client may need
 * the driver before it writes the semaphore.
 *
 *   driver_waits [--kernel] [NAME...]
 *
 * Each call is made in a separate process, where it is the first of its kind, and some
 * more times. Prints for each `NAME: -' or `NAME: waits (time N)', with `, and so do
 * others' if meanwhile another thread cannot launch on another stream.
 *
 * Runs: for a test of its own
 */

#define _GNU_SOURCE
#define NAME "driver_waits"
#include <pthread.h>

#include "../helpers/driver_graphs.h"
#include "../helpers/each_thing.h"

enum {
	PATIENCE_US = 1000000, /* each call takes less time by itself */
	LOOK_US = 10000,
	LIMIT_S = 30,
	WAITS_MAX = 3,
};

static const struct thing {
	const char *name;
	void (*prepare)(void);
	void (*act)(void);
} things[] = {
	{"streams", NULL, streams},
	{"streams_of_priority", NULL, streams_of_priority},
	{"streams_of_priority_again", make_streams, streams_of_priority},
	{"streams_again", make_streams, streams},
	{"stream_ends", NULL, stream_ends},
	{"events", NULL, events},
	{"event_ends", NULL, event_ends},
	{"context_events", NULL, context_events},
	{"arrays", NULL, arrays},
	{"array_ends", NULL, array_ends},
	{"mipmap_ends", NULL, mipmap_ends},
	{"textures", make_arrays, textures},
	{"texture_ends", make_arrays, texture_ends},
	{"linear_textures", NULL, linear_textures},
	{"allocations", NULL, allocations},
	{"fills", NULL, fills},
	{"box_fills", NULL, box_fills},
	{"copies", NULL, copies},
	{"box_copies", NULL, box_copies},
	{"array_copies", make_arrays, array_copies},
	{"launches", NULL, launches},
	{"local_memory", NULL, local_memory},
	{"device_heap", load_allocate, launch_service},
	{"printing", load_print, launch_service},
	{"names_before_loading", NULL, names_before_loading},
	{"attributes_before_loading", NULL, attributes_before_loading},
	{"parameters_before_loading", NULL, parameters_before_loading},
	{"attribute_set_before_loading", NULL, attribute_set_before_loading},
	{"asked_after_loading", NULL, asked_after_loading},
	{"loading", NULL, loading},
	{"loading_further", NULL, loading_further},
	{"compiling", NULL, compiling},
	{"linking", NULL, linking},
	{"variable", NULL, variable},
	{"unloading", attribute_set_before_loading, unloading},
	{"mappings", NULL, mappings},
	{"mapping_ends", NULL, mapping_ends},
	{"pinning", NULL, pinning},
	{"unpinning", NULL, unpinning},
	{"graphs", NULL, graphs},
	{"graphs_of_kernels", NULL, graphs_of_kernels},
	{"graphs_of_chains", NULL, graphs_of_chains},
	{"graphs_of_kernels_apart", NULL, graphs_of_kernels_apart},
	{"graphs_of_memsets", NULL, graphs_of_memsets},
	{"graphs_of_copies", NULL, graphs_of_copies},
	{"graphs_of_ops", NULL, graphs_of_ops},
	{"graphs_of_records", NULL, graphs_of_records},
	{"graphs_made", NULL, graphs_made},
	{"graphs_again", make_room, graphs_made},
	{"chains_again", make_room_of_chains, graphs_of_chains},
	{"graphs_after_chains", make_room_of_chains, graphs_made},
	{"chains_after_graphs", make_room, graphs_of_chains},
	{"graphs_after_streams", make_streams, graphs_made},
	{"chains_after_streams", make_streams, graphs_of_chains},
	{"streams_after_graphs", make_room, streams},
	{"streams_after_chains", make_room_of_chains, streams},
	{"graphs_of_large", NULL, graphs_of_large},
	{"graphs_of_large_after_streams", make_streams, graphs_of_large},
	{"chains_set", make_chains, chains_set},
	{"chains_after_records", make_room_of_records, graphs_of_chains},
	{"streams_after_records", make_room_of_records, streams},
	{"graphs_uploaded", make_graphs, graphs_uploaded},
	{"graphs_launched", make_graphs, graphs_launched},
	{"graph_ends", NULL, graph_ends},
	{"green", NULL, make_green},
	{"green_streams", make_green, green_streams},
	{"green_ends", NULL, green_ends},
	{"stack", NULL, stack},
	{"words", NULL, words},
};

static CUstream waiting, beside;
static CUfunction spin;
static volatile uint32_t *word;
static int is_kernel;

static volatile unsigned n_back;           /* calls that have returned */
static unsigned waits[WAITS_MAX], n_waits; /* calls that have waited */
static int holds_up_others;                /* the first of them that delayed others */

static volatile int is_other_back;

/* Work that is independent of the blocked stream. */
static void *other(void *arg)
{
	(void)arg;
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamWriteValue32(beside, (CUdeviceptr)(uintptr_t)&word[1], 1, 0));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, beside, NULL, NULL));
	is_other_back = 1;
	return NULL;
}

static void look_at_others(void)
{
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, other, NULL) == 0);
	usleep(PATIENCE_US);
	holds_up_others = !is_other_back;
}

/* Writes the semaphore when no call has returned for that long. */
static void *watch(void *arg)
{
	unsigned last = 0, quiet_us = 0;

	(void)arg;
	for (;;) {
		usleep(LOOK_US);
		quiet_us = n_back == last ? quiet_us + LOOK_US : 0;
		last = n_back;
		if (quiet_us < PATIENCE_US)
			continue;
		if (n_waits == 0)
			look_at_others();
		if (n_waits < WAITS_MAX)
			waits[n_waits++] = last + 1;
		quiet_us = 0;
		*word = 1;
	}
	return NULL;
}

static void setup(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryLoadData(&fresh, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	CHECK(cuKernelGetFunction(&function, kernel));
	CHECK(cuLibraryGetKernel(&kernel, library, "spin"));
	CHECK(cuKernelGetFunction(&spin, kernel));
	CHECK(cuMemAlloc(&memory, 128 * MIB));
	CHECK(cuMemHostAlloc((void **)&pinned, 8 * MIB, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	pageable = calloc(1, MIB);
	MUST(pageable != NULL);
}

static void stand(void)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
	void *params[] = {&at};

	*word = 0;
	if (is_kernel)
		CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, waiting, params, NULL));
	else
		CHECK(cuStreamWaitValue32(waiting, at, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void back(void)
{
	n_back++;
	if (*word)
		stand();
}

static void try_it(const void *data)
{
	const struct thing *thing = data;
	pthread_t thread;

	setup();
	if (thing->prepare)
		thing->prepare();
	CHECK(cuCtxSynchronize());
	stand();
	MUST(pthread_create(&thread, NULL, watch, NULL) == 0);
	for (turn = 0; turn < TIMES && n_waits < WAITS_MAX; turn++) {
		thing->act();
		back();
	}
	*word = 1;
	printf(n_waits > 0 ? "%s: waits (time" : "%s: -", thing->name);
	for (unsigned i = 0; i < n_waits; i++)
		printf(" %u", waits[i]);
	puts(n_waits == 0 ? "" : holds_up_others ? "), and so do others" : ")");
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	int n_bad = 0;

	if (argc > 1 && !strcmp(argv[1], "--kernel")) {
		is_kernel = 1;
		argc--;
		argv++;
	}
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
		if (is_named(things[i].name, argc, argv))
			n_bad += in_a_process(things[i].name, LIMIT_S, try_it, &things[i]);
	if (n_bad > 0)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
