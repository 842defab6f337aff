/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A pool of one process used by another: a child forked before any use of CUDA gets the
 * pool as a descriptor and its allocations as exported pointers. It reads, writes and frees
 * them, in the order of a stream and not; then the parent frees them and allocates again.
 * And what is refused. With `orphan', the child that created the pool is killed, and the
 * parent continues to use its allocations.
 */

#define _GNU_SOURCE
#define NAME "pool_ipc"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "../helpers/driver_program.h"
#include "../helpers/two_processes.h"

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const size_t sizes[] = {1000, 300000, 1 << 20, 3 << 20, 16 << 20};

enum {
	N = sizeof(sizes) / sizeof(sizes[0])
};

static CUstream begin(void)
{
	CUcontext context;
	CUstream stream;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void check_bytes(CUdeviceptr ptr, size_t size, int value, const char *what)
{
	unsigned char *host = malloc(size);

	CHECK(cuMemcpyDtoH(host, ptr, size));
	for (size_t i = 0; i < size; i++)
		expect(host[i] == value, what);
	free(host);
}

static CUmemoryPool make_pool(CUmemAllocationHandleType types)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = types,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static CUmemoryPool import(int fd)
{
	CUmemoryPool pool;

	CHECK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0));
	close(fd);
	return pool;
}

static void try_no_pool(int fd)
{
	CUmemoryPool pool;

	EXPECT(CUDA_ERROR_UNKNOWN,
		cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0));
	close(fd);
}

/* A process imports a pool once; further imports count, and so do destructions. */
static void import_again(CUmemoryPool pool, int fd)
{
	expect(import(fd) == pool, "a pool imported twice is the same");
}

static void try_attributes(CUmemoryPool pool)
{
	uint64_t value = 0;

	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
}

/* Opened once; further opens count. */
static void open_again(CUdeviceptr ptr, CUmemoryPool pool, CUmemPoolPtrExportData *ticket)
{
	CUmemoryPool found = NULL;
	CUdeviceptr again;

	CHECK(cuMemPoolImportPointer(&again, pool, ticket));
	expect(again == ptr, "memory opened twice is at the same address");
	CHECK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
	expect(found == pool, "the pool of another's memory");
}

/* Descriptors that are no pool, and calls that an imported pool refuses. */
static void try_odd(CUmemoryPool pool, CUstream stream)
{
	int file = memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CUmemPoolPtrExportData odd;
	CUdeviceptr ptr;

	memset(&odd, 0x5a, sizeof(odd));
	expect(cuMemPoolImportPointer(&ptr, pool, &odd) != CUDA_SUCCESS,
		"a ticket out of thin air was taken");
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&ptr, 1000, pool, stream));
	expect(pwrite(file, &odd, sizeof(odd), 0) == sizeof(odd), "a file that is too small");
	try_no_pool(file);
	try_no_pool(open("/dev/null", O_RDWR | O_CLOEXEC));
	try_no_pool(-1);
	try_attributes(pool);
}

/* The child opens all of it, writes, and reports when it has written and when it has freed. */
static void use(int sock)
{
	CUmemPoolPtrExportData tickets[N];
	CUdeviceptr ptrs[N];
	CUmemoryPool pool;
	CUstream stream;
	int fd = hear_descriptor(sock);

	stream = begin();
	pool = import(dup(fd));
	hear(sock, tickets, sizeof(tickets));
	for (int i = 0; i < N; i++) {
		CUmemorytype type = 0;

		CHECK(cuMemPoolImportPointer(&ptrs[i], pool, &tickets[i]));
		open_again(ptrs[i], pool, &tickets[i]);
		CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptrs[i]));
		expect(type == CU_MEMORYTYPE_DEVICE, "the type of another's memory");
		check_bytes(ptrs[i], sizes[i], i + 1, "what the parent wrote");
		CHECK(cuMemsetD8Async(ptrs[i], (unsigned char)(i + 101), sizes[i], stream));
	}
	try_odd(pool, stream);
	CHECK(cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
	import_again(pool, fd);
	tell_word(sock);
	hear_word(sock);
	for (int i = 0; i < N; i++) {
		if (i % 2 == 0)
			CHECK(cuMemFreeAsync(ptrs[i], stream));
		else
			CHECK(cuMemFree(ptrs[i]));
	}
	CHECK(cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(ptrs[1]));
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuMemPoolDestroy(pool));
	tell_word(sock);
}

static void try_unshared(CUstream stream)
{
	CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	CUmemPoolPtrExportData ticket;
	CUdeviceptr ptr;
	int fd = -1;

	CHECK(cuMemAllocFromPoolAsync(&ptr, 1000, pool, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&ticket, ptr));
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
}

static void give(int sock)
{
	CUmemPoolPtrExportData tickets[N];
	CUdeviceptr ptrs[N], more;
	CUstream stream = begin();
	CUmemoryPool pool = make_pool(FD);
	int fd = -1;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(NULL, pool, FD, 0));
	CHECK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	tell_descriptor(sock, fd);
	close(fd);
	for (int i = 0; i < N; i++) {
		CHECK(cuMemAllocFromPoolAsync(&ptrs[i], sizes[i], pool, stream));
		CHECK(cuMemsetD8Async(ptrs[i], (unsigned char)(i + 1), sizes[i], stream));
		CHECK(cuMemPoolExportPointer(&tickets[i], ptrs[i]));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(NULL, ptrs[0]));
	CHECK(cuStreamSynchronize(stream));
	try_unshared(stream);
	tell(sock, tickets, sizeof(tickets));
	hear_word(sock);
	for (int i = 0; i < N; i++)
		check_bytes(ptrs[i], sizes[i], i + 101, "what the child wrote");
	tell_word(sock);
	hear_word(sock);
	for (int i = 0; i < N; i++)
		CHECK(cuMemFreeAsync(ptrs[i], stream));
	CHECK(cuMemAllocFromPoolAsync(&more, sizes[N - 1], pool, stream));
	CHECK(cuMemsetD8Async(more, 7, sizes[N - 1], stream));
	CHECK(cuStreamSynchronize(stream));
	check_bytes(more, sizes[N - 1], 7, "memory allocated again");
	CHECK(cuMemFreeAsync(more, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
}

/* The creator is killed at work: processes that have the memory open keep it. */
static void orphan(int sock, pid_t child)
{
	CUmemPoolPtrExportData ticket;
	CUmemoryPool pool;
	CUdeviceptr ptr;
	int fd = hear_descriptor(sock);

	begin();
	pool = import(fd);
	hear(sock, &ticket, sizeof(ticket));
	CHECK(cuMemPoolImportPointer(&ptr, pool, &ticket));
	kill(child, SIGKILL);
	wait_for_child(child, 1);
	for (int i = 0; i < 100; i++) {
		check_bytes(ptr, sizes[2], i ? i : 0x21, "after the maker's end");
		CHECK(cuMemsetD8(ptr, (unsigned char)(i + 1), sizes[2]));
		usleep(5000);
	}
	CHECK(cuMemFree(ptr));
	CHECK(cuMemPoolDestroy(pool));
}

static void orphan_child(int sock)
{
	CUstream stream = begin();
	CUmemoryPool pool = make_pool(FD);
	CUmemPoolPtrExportData ticket;
	CUdeviceptr ptr;
	int fd = -1;

	CHECK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	tell_descriptor(sock, fd);
	CHECK(cuMemAllocFromPoolAsync(&ptr, sizes[2], pool, stream));
	CHECK(cuMemsetD8Async(ptr, 0x21, sizes[2], stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolExportPointer(&ticket, ptr));
	tell(sock, &ticket, sizeof(ticket));
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
