/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of one process used by another: a child forked before any use of CUDA opens
 * allocations of its parent, reads, writes and closes them; sizes from bytes to
 * megabytes, opened twice, and what is refused. With `orphan', the process that
 * allocated the memory is killed, and the parent continues to use it.
 */

#define NAME "ipc_memory"
#include <signal.h>

#include "../helpers/driver_program.h"
#include "../helpers/two_processes.h"

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {1000, 300000, 1 << 20, 3 << 20, 16 << 20};

enum {
	N = sizeof(sizes) / sizeof(sizes[0])
};

static void begin(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

static void check_bytes(CUdeviceptr ptr, size_t size, int value, const char *what)
{
	unsigned char *host = malloc(size);

	CHECK(cuMemcpyDtoH(host, ptr, size));
	for (size_t i = 0; i < size; i++)
		expect(host[i] == value, what);
	free(host);
}

static void fill(CUdeviceptr ptr, size_t size, int value)
{
	CHECK(cuMemsetD8(ptr, (unsigned char)value, size));
	CHECK(cuCtxSynchronize());
}

/* The child opens all of it, and reports when it has written and when it has closed. */
static void use(int sock)
{
	CUipcMemHandle handles[N], odd;
	CUdeviceptr ptrs[N], again;

	begin();
	hear(sock, handles, sizeof(handles));
	for (int i = 0; i < N; i++) {
		CUmemorytype type = 0;

		CHECK(cuIpcOpenMemHandle(&ptrs[i], handles[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptrs[i]));
		expect(type == CU_MEMORYTYPE_DEVICE, "the type of another's memory");
		check_bytes(ptrs[i], sizes[i], i + 1, "what the parent wrote");
		fill(ptrs[i], sizes[i], i + 101);
	}
	CHECK(cuIpcOpenMemHandle(&again, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	expect(again == ptrs[0], "opened twice it is elsewhere");
	CHECK(cuIpcCloseMemHandle(again));
	check_bytes(ptrs[0], sizes[0], 101, "closed once of two");
	expect(cuIpcOpenMemHandle(&again, handles[1], 0) != CUDA_SUCCESS, "flags do not matter");
	memset(&odd, 0, sizeof(odd));
	expect(cuIpcOpenMemHandle(&again, odd, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS,
		"a handle out of thin air was opened");
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(ptrs[0] + 4096 * MIB));
	tell_word(sock);
	hear_word(sock);
	for (int i = 0; i < N; i++)
		CHECK(cuIpcCloseMemHandle(ptrs[i]));
	tell_word(sock);
}

static void give(int sock)
{
	CUipcMemHandle handles[N], same;
	CUdeviceptr ptrs[N];
	int local;

	begin();
	for (int i = 0; i < N; i++) {
		CHECK(cuMemAlloc(&ptrs[i], sizes[i]));
		fill(ptrs[i], sizes[i], i + 1);
		CHECK(cuIpcGetMemHandle(&handles[i], ptrs[i]));
	}
	CHECK(cuIpcGetMemHandle(&same, ptrs[0]));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&same, (CUdeviceptr)(size_t)&local));
	tell(sock, handles, sizeof(handles));
	hear_word(sock);
	for (int i = 0; i < N; i++)
		check_bytes(ptrs[i], sizes[i], i + 101, "what the child wrote");
	tell_word(sock);
	hear_word(sock);
	for (int i = 0; i < N; i++)
		CHECK(cuMemFree(ptrs[i]));
	/* Other memory at that address gets another handle. */
	CHECK(cuMemAlloc(&ptrs[0], sizes[0]));
	CHECK(cuIpcGetMemHandle(&same, ptrs[0]));
	expect(memcmp(&same, &handles[0], sizeof(same)) != 0, "a handle came back");
	CHECK(cuMemFree(ptrs[0]));
}

/* The owner is killed at work: processes that have the memory open keep it. */
static void orphan(int sock, pid_t child)
{
	CUipcMemHandle handle;
	CUdeviceptr ptr;

	begin();
	hear(sock, &handle, sizeof(handle));
	CHECK(cuIpcOpenMemHandle(&ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	check_bytes(ptr, MIB, 0x21, "before the maker's end");
	kill(child, SIGKILL);
	wait_for_child(child, 1);
	for (int i = 0; i < 100; i++) {
		check_bytes(ptr, MIB, i ? i : 0x21, "after the maker's end");
		fill(ptr, MIB, i + 1);
		usleep(10000);
	}
	CHECK(cuIpcCloseMemHandle(ptr));
}

static void orphan_child(int sock)
{
	CUipcMemHandle handle;
	CUdeviceptr ptr;

	begin();
	CHECK(cuMemAlloc(&ptr, MIB));
	fill(ptr, MIB, 0x21);
	CHECK(cuIpcGetMemHandle(&handle, ptr));
	tell(sock, &handle, sizeof(handle));
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int is_orphan = argc > 1 && !strcmp(argv[1], "orphan"), ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return 1;
	child = fork();
	if (child == 0) {
		close(ends[0]);
		if (is_orphan)
			orphan_child(ends[1]);
		else
			use(ends[1]);
		exit(0);
	}
	close(ends[1]);
	if (is_orphan) {
		orphan(ends[0], child);
	} else {
		give(ends[0]);
		wait_for_child(child, 0);
	}
	printf(NAME ": ok\n");
	return 0;
}
