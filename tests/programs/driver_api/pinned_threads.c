/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes of threads that request their first pinned memory at the same moment: each
 * gets separate memory, which it can write at once, and more later.
 *
 * Builds with: -pthread
 */

#define NAME "pinned_threads"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

enum {
	PROCESSES = 6,
	THREADS = 8,
	ROUNDS = 6
};

static CUcontext context;
static pthread_barrier_t barrier;

static size_t size_of(size_t thread, int round)
{
	return (thread + 1) << (round % 2 ? 20 : 8);
}

static void check_own(const unsigned char *bytes, size_t size, unsigned char value)
{
	for (size_t i = 0; i < size; i += 255)
		if (bytes[i] != value) {
			printf(NAME ": another thread's memory: %d, not %d\n", bytes[i], value);
			exit(1);
		}
}

static void *run(void *arg)
{
	size_t thread = (size_t)arg;
	unsigned char *all[ROUNDS];

	CHECK(cuCtxSetCurrent(context));
	for (int round = 0; round < ROUNDS; round++) {
		void *bytes;

		pthread_barrier_wait(&barrier);
		CHECK(cuMemHostAlloc(&bytes, size_of(thread, round), CU_MEMHOSTALLOC_PORTABLE));
		memset(bytes, (int)thread + round, size_of(thread, round));
		all[round] = bytes;
	}
	for (int round = 0; round < ROUNDS; round++) {
		check_own(all[round], size_of(thread, round), (unsigned char)((int)thread + round));
		CHECK(cuMemFreeHost(all[round]));
	}
	return NULL;
}

static int process(void)
{
	pthread_t threads[THREADS];
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	MUST(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
	for (size_t i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(cuDevicePrimaryCtxRelease(device));
	return 0;
}

int main(void)
{
	pid_t children[PROCESSES];
	int status;

	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i] == 0)
			exit(process());
		MUST(children[i] > 0);
	}
	for (int i = 0; i < PROCESSES; i++)
		MUST(waitpid(children[i], &status, 0) == children[i] && status == 0);
	printf(NAME ": ok\n");
	return 0;
}
