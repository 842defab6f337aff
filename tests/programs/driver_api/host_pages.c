/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What of pinned and managed memory a core, a debugger, mlockall() and limits see:
 *
 *   host_pages touch        another thread writes memory, this one reads it
 *   host_pages lock [MIB]   locks all memory, present and future; prints how much that is, and
 *                           what an allocation of MIB returns
 *   host_pages wait         waits for a line
 *   host_pages abort        writes a core
 *
 * Before that, each page of the memory gets a text of its own, and larger memory is freed.
 *
 * Runs: for a test of its own
 * Builds with: -pthread
 */

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define NAME "host_pages"
#include "../helpers/driver_program.h"

#define MIB ((size_t)1 << 20)
#define SIZE MIB
#define PAGE ((size_t)4096)
/* Freed before. */
#define LARGE (96 * MIB)

static char *pinned, *managed;

static void mark(char *memory, const char *kind)
{
	for (unsigned i = 0; i < SIZE / PAGE; i++)
		snprintf(memory + i * PAGE, 64, "<%s page %u>", kind, i);
}

static void *mark_all(void *unused)
{
	mark(pinned, "pinned");
	mark(managed, "managed");
	return unused;
}

static void allocate(void)
{
	CUdeviceptr ptr = 0;
	void *large = NULL;

	CHECK(cuMemHostAlloc(&large, LARGE, 0));
	memset(large, 1, LARGE);
	CHECK(cuMemAllocManaged(&ptr, LARGE, CU_MEM_ATTACH_GLOBAL));
	memset((void *)(uintptr_t)ptr, 2, LARGE);
	CHECK(cuMemFree(ptr));
	CHECK(cuMemFreeHost(large));
	CHECK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
	CHECK(cuMemAllocManaged(&ptr, SIZE, CU_MEM_ATTACH_GLOBAL));
	managed = (char *)(uintptr_t)ptr;
}

/* The bytes reach the GPU and come back. */
static void check_bytes(void)
{
	pthread_t thread;
	CUdeviceptr ptr = 0;
	char *copy = calloc(1, SIZE);

	MUST(copy && pthread_create(&thread, NULL, mark_all, NULL) == 0);
	MUST(pthread_join(thread, NULL) == 0);
	CHECK(cuMemAlloc(&ptr, SIZE));
	CHECK(cuMemcpyHtoD(ptr, pinned, SIZE));
	CHECK(cuMemcpyDtoH(copy, ptr, SIZE));
	MUST(strcmp(copy + SIZE - PAGE, "<pinned page 255>") == 0);
	CHECK(cuMemcpyHtoD(ptr, managed, SIZE));
	CHECK(cuMemcpyDtoH(pinned, ptr, SIZE));
	MUST(strcmp(pinned + PAGE, "<managed page 1>") == 0);
	CHECK(cuMemFree(ptr));
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuMemFree((uintptr_t)managed));
	free(copy);
}

static void print_locked(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	MUST(status != NULL);
	while (fgets(line, sizeof(line), status))
		if (strncmp(line, "VmLck:", 6) == 0)
			printf("%s", line);
	fclose(status);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "touch";
	CUdevice device = 0;
	CUcontext context = NULL;

	if (strcmp(how, "lock") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		perror("mlockall");
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (argc > 2) {
		printf("result: %d\n", cuMemHostAlloc((void **)&pinned, atoi(argv[2]) * MIB, 0));
		return 0;
	}
	allocate();
	mark_all(NULL);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "lock") == 0)
		print_locked();
	printf("ready\n");
	fflush(stdout);
	if (strcmp(how, "wait") == 0)
		(void)getchar();
	check_bytes();
	printf(NAME ": ok\n");
	return 0;
}
