/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives up things that the GPU still uses, or another process; then it makes no more calls.
 * `later_ends streams' destroys streams, `later_ends memory' frees memory in the order of a
 * stream, `later_ends pool' the same with a pool that it destroys, `later_ends shared'
 * frees memory that another process has open. Prints `later_ends: waiting'; a line of input
 * ends the use, and the end of input ends the program.
 *
 * Runs: for a test of its own
 */

#define NAME "later_ends"
#include <unistd.h>

#include "../helpers/driver_program.h"
#include "../helpers/two_processes.h"

enum {
	STREAMS = 8
};

#define SIZE ((size_t)200 << 20)

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n" ENTRY_OF_SPIN;

static void begin(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

static void wait_for_input(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n')
		;
}

static void say_waiting(void)
{
	printf(NAME ": waiting\n");
	fflush(stdout);
}

static void launch(CUfunction spin, CUstream stream, const volatile unsigned *word)
{
	CUdeviceptr at = (CUdeviceptr)(size_t)word;
	void *args[] = {&at};

	CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static CUmemoryPool pool_new(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static void give_up(const char *what, CUfunction spin, const volatile unsigned *word)
{
	CUmemoryPool pool = NULL;
	CUstream streams[STREAMS];
	CUdeviceptr memory = 0;

	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	if (!strcmp(what, "pool")) {
		pool = pool_new();
		CHECK(cuMemAllocFromPoolAsync(&memory, SIZE, pool, streams[0]));
	} else if (!strcmp(what, "memory")) {
		CHECK(cuMemAlloc(&memory, SIZE));
	}
	for (unsigned i = 0; i < STREAMS; i++)
		launch(spin, streams[i], word);
	if (memory)
		CHECK(cuMemFreeAsync(memory, streams[0]));
	if (pool)
		CHECK(cuMemPoolDestroy(pool));
	if (!strcmp(what, "streams"))
		for (unsigned i = 0; i < STREAMS; i++)
			CHECK(cuStreamDestroy(streams[i]));
}

static void used_by_work(const char *what)
{
	volatile unsigned *word;
	CUfunction spin;
	CUmodule module;
	void *pinned;

	begin();
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuMemHostAlloc(&pinned, sizeof(*word), CU_MEMHOSTALLOC_PORTABLE));
	word = pinned;
	*word = 0;
	give_up(what, spin, word);
	say_waiting();
	wait_for_input();
	*word = 1;
}

static void use(int sock)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;

	begin();
	hear(sock, &handle, sizeof(handle));
	CHECK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	tell_word(sock);
	hear_word(sock);
	CHECK(cuIpcCloseMemHandle(memory));
	tell_word(sock);
}

static void used_by_process(int sock)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;

	begin();
	CHECK(cuMemAlloc(&memory, SIZE));
	CHECK(cuIpcGetMemHandle(&handle, memory));
	tell(sock, &handle, sizeof(handle));
	hear_word(sock);
	CHECK(cuMemFree(memory));
	say_waiting();
	wait_for_input();
	tell_word(sock);
	hear_word(sock);
}

static void used_by_other(void)
{
	int ends[2];
	pid_t child;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	child = fork();
	if (child == 0) {
		use(ends[1]);
		exit(0);
	}
	close(ends[1]);
	used_by_process(ends[0]);
	wait_for_child(child, 0);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	if (!strcmp(argv[1], "shared"))
		used_by_other();
	else
		used_by_work(argv[1]);
	wait_for_input();
	return 0;
}
