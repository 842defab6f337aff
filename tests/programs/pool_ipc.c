/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A pool of one process used by another: a child forked before any use of CUDA
 * gets the pool as a descriptor and its allocations as tickets, reads and writes
 * them, frees them in the order of a stream and not; then the parent frees them
 * and allocates again. What is refused. With `orphan' the child is killed that
 * has made the pool, and the parent goes on using what it had of it.
 */

#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "pool_ipc"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define REFUSE(call) expect((call), CUDA_ERROR_INVALID_VALUE, #call, __LINE__)

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const size_t sizes[] = {1000, 300000, 1 << 20, 3 << 20, 16 << 20};

enum {
	N = sizeof(sizes) / sizeof(sizes[0])
};

static void expect(CUresult got, CUresult expected, const char *what, int line)
{
	if (got == expected)
		return;
	printf(NAME ": line %d: %s returned %d, not %d\n", line, what, got, expected);
	exit(1);
}

static void check(int is_so, const char *what, unsigned long long value)
{
	if (is_so)
		return;
	printf(NAME ": %s (%llu)\n", what, value);
	exit(1);
}

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

static void tell(int sock, const void *data, size_t size)
{
	check(send(sock, data, size, MSG_NOSIGNAL) == (ssize_t)size, "the other process has gone",
		size);
}

static void hear(int sock, void *data, size_t size)
{
	check(recv(sock, data, size, MSG_WAITALL) == (ssize_t)size,
		"the other process says nothing", size);
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static void tell_fd(int sock, int fd)
{
	union control control = {.head = {
					 .cmsg_len = CMSG_LEN(sizeof(int)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS,
				 }};
	char byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	check(sendmsg(sock, &message, MSG_NOSIGNAL) == 1, "the other process has gone", 1);
}

static int hear_fd(int sock)
{
	union control control;
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	int fd = -1;

	check(recvmsg(sock, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "no descriptor came", 0);
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void check_bytes(CUdeviceptr ptr, size_t size, int value, const char *what)
{
	unsigned char *host = malloc(size);

	CHECK(cuMemcpyDtoH(host, ptr, size));
	for (size_t i = 0; i < size; i++)
		check(host[i] == value, what, i);
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

	check(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0) !=
			CUDA_SUCCESS,
		"no pool was imported", (unsigned long long)fd);
	close(fd);
}

/* What is no pool, and what cannot be done with another's. */
static void try_odd(CUmemoryPool pool, CUstream stream)
{
	int file = memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CUmemPoolPtrExportData odd;
	CUdeviceptr ptr;

	memset(&odd, 0x5a, sizeof(odd));
	check(cuMemPoolImportPointer(&ptr, pool, &odd) != CUDA_SUCCESS,
		"a ticket out of thin air was taken", 0);
	check(cuMemAllocFromPoolAsync(&ptr, 1000, pool, stream) != CUDA_SUCCESS,
		"another's pool gave memory", 0);
	check(pwrite(file, &odd, sizeof(odd), 0) == sizeof(odd), "a file that is too small", 0);
	try_no_pool(file);
	try_no_pool(open("/dev/null", O_RDWR | O_CLOEXEC));
}

/* The child takes all of it, writes, and says when it has, and when it has freed. */
static void use(int sock)
{
	CUmemPoolPtrExportData tickets[N];
	CUdeviceptr ptrs[N];
	CUmemoryPool pool;
	CUstream stream;
	char word = 0;
	int fd = hear_fd(sock);

	stream = begin();
	pool = import(fd);
	hear(sock, tickets, sizeof(tickets));
	for (int i = 0; i < N; i++) {
		CUmemorytype type = 0;

		CHECK(cuMemPoolImportPointer(&ptrs[i], pool, &tickets[i]));
		CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptrs[i]));
		check(type == CU_MEMORYTYPE_DEVICE, "the type of another's memory", type);
		check_bytes(ptrs[i], sizes[i], i + 1, "what the parent wrote");
		CHECK(cuMemsetD8Async(ptrs[i], (unsigned char)(i + 101), sizes[i], stream));
	}
	try_odd(pool, stream);
	CHECK(cuStreamSynchronize(stream));
	tell(sock, &word, 1);
	hear(sock, &word, 1);
	for (int i = 0; i < N; i++) {
		if (i % 2 == 0)
			CHECK(cuMemFreeAsync(ptrs[i], stream));
		else
			CHECK(cuMemFree(ptrs[i]));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
	tell(sock, &word, 1);
}

static void try_unshared(CUstream stream)
{
	CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	CUmemPoolPtrExportData ticket;
	CUdeviceptr ptr;
	int fd = -1;

	CHECK(cuMemAllocFromPoolAsync(&ptr, 1000, pool, stream));
	check(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0) != CUDA_SUCCESS,
		"a pool that is not shared was exported", 0);
	check(cuMemPoolExportPointer(&ticket, ptr) != CUDA_SUCCESS,
		"memory of a pool that is not shared was exported", 0);
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
	char word = 0;
	int fd = -1;

	REFUSE(cuMemPoolExportToShareableHandle(NULL, pool, FD, 0));
	CHECK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	tell_fd(sock, fd);
	close(fd);
	for (int i = 0; i < N; i++) {
		CHECK(cuMemAllocFromPoolAsync(&ptrs[i], sizes[i], pool, stream));
		CHECK(cuMemsetD8Async(ptrs[i], (unsigned char)(i + 1), sizes[i], stream));
		CHECK(cuMemPoolExportPointer(&tickets[i], ptrs[i]));
	}
	REFUSE(cuMemPoolExportPointer(NULL, ptrs[0]));
	CHECK(cuStreamSynchronize(stream));
	try_unshared(stream);
	tell(sock, tickets, sizeof(tickets));
	hear(sock, &word, 1);
	for (int i = 0; i < N; i++)
		check_bytes(ptrs[i], sizes[i], i + 101, "what the child wrote");
	tell(sock, &word, 1);
	hear(sock, &word, 1);
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

static void wait_for(pid_t child, int is_killed)
{
	int status = 0;

	waitpid(child, &status, 0);
	if (is_killed ? !WIFSIGNALED(status) : status != 0) {
		printf(NAME ": the child ended with %#x\n", (unsigned)status);
		exit(1);
	}
}

/* The maker is killed at work: its memory stays for who has it. */
static void orphan(int sock, pid_t child)
{
	CUmemPoolPtrExportData ticket;
	CUmemoryPool pool;
	CUdeviceptr ptr;
	int fd = hear_fd(sock);

	begin();
	pool = import(fd);
	hear(sock, &ticket, sizeof(ticket));
	CHECK(cuMemPoolImportPointer(&ptr, pool, &ticket));
	kill(child, SIGKILL);
	wait_for(child, 1);
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
	tell_fd(sock, fd);
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
		wait_for(child, 0);
	}
	printf(NAME ": ok\n");
	return 0;
}
