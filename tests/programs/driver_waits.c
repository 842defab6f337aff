/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which calls of the driver wait for all that is on the GPU: beside a stream that
 * waits for a word of the host's, or a kernel that does, they do not come back
 * before it is written. A server must make none of them while a stream stands
 * still, as its client may need the driver before it writes the word.
 *
 *   driver_waits [--kernel] [NAME...]
 *
 * Each is called in a process of its own, where that is its first use, and some
 * times more. Prints `NAME: -' or `NAME: waits (time N)' for each.
 *
 * Runs: for a test of its own
 */

#define _GNU_SOURCE
#define NAME "driver_waits"
#include <pthread.h>
#include <sys/wait.h>

#include "parts/driver_things.h"

enum {
	PATIENCE_US = 1500000, /* nothing here takes so long by itself */
	LOOK_US = 10000,
	LIMIT_S = 30,
};

static CUstream waiting;
static CUfunction spin;
static volatile uint32_t *word;
static int is_kernel;

static volatile unsigned n_back; /* calls of a thing that came back */
static int waited = -1;          /* the first that did not */

/* Writes the word when nothing has come back for so long. */
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
		if (waited < 0)
			waited = (int)last;
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

static void try_it(const struct thing *thing)
{
	pthread_t thread;

	setup();
	if (thing->prepare)
		thing->prepare();
	CHECK(cuCtxSynchronize());
	stand();
	MUST(pthread_create(&thread, NULL, watch, NULL) == 0);
	for (turn = 0; turn < TIMES && waited < 0; turn++) {
		thing->act();
		n_back++;
	}
	*word = 1;
	if (waited < 0)
		printf("%s: -\n", thing->name);
	else
		printf("%s: waits (time %d)\n", thing->name, waited + 1);
	fflush(stdout);
	_exit(0);
}

static int is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc < 2;
}

/* 0, or 1 if it did not end by itself with success. */
static int run(const struct thing *thing)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(LIMIT_S);
		try_it(thing);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("%s: ended by signal %d\n", thing->name, WTERMSIG(status));
	return status != 0;
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
		if (is_wanted(things[i].name, argc, argv))
			n_bad += run(&things[i]);
	if (n_bad > 0)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
