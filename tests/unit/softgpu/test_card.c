/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU: one memory of the card for several processes, what keeps it, and what
 * the eviction of memory relies on.
 */

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "softgpu_child.h"

#define CARD "SOFTGPU_MEMORY_MIB=16"
#define UNIT (2 * MIB)

static char card_setting[64];
static int card_fd = -1;

/* A new card for each test. */
static int card_make(void **state)
{
	(void)state;
	card_fd = memfd_create("card", MFD_CLOEXEC);
	snprintf(card_setting, sizeof(card_setting), "SOFTGPU_CARD=/proc/%d/fd/%d", getpid(),
		card_fd);
	return card_fd < 0 ? -1 : 0;
}

static int card_remove(void **state)
{
	(void)state;
	return close(card_fd);
}

#define CARD_CHILD(name)                                                                           \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		in_child(name##_child, CARD, card_setting, (char *)NULL);                          \
	}

static size_t free_bytes(void)
{
	size_t left, total;

	OK(CU(cuMemGetInfo)(&left, &total));
	CHECK(total == 16 * MIB);
	return left;
}

/* Another process on the card: does `what', says so on the socket, and waits there. */
struct process {
	pid_t pid;
	int sock;
};

static struct process process_new(void (*what)(int sock))
{
	struct process process;
	int socks[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) == 0);
	process.pid = fork();
	CHECK(process.pid >= 0);
	if (process.pid == 0) {
		close(socks[0]);
		context_open();
		what(socks[1]);
		CHECK(write(socks[1], "r", 1) == 1);
		(void)!read(socks[1], &(char){0}, 1);
		_exit(0); /* without freeing anything */
	}
	close(socks[1]);
	process.sock = socks[0];
	return process;
}

static void process_await(const struct process *process)
{
	CHECK(read(process->sock, &(char){0}, 1) == 1);
}

static void process_end(const struct process *process)
{
	int status;

	kill(process->pid, SIGKILL);
	CHECK(waitpid(process->pid, &status, 0) == process->pid);
	close(process->sock);
}

static void fd_send(int sock, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec byte = {.iov_base = (char[]){'f'}, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	CHECK(sendmsg(sock, &message, 0) == 1);
}

static int fd_receive(int sock)
{
	char space[CMSG_SPACE(sizeof(int))];
	struct iovec byte = {.iov_base = (char[]){0}, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space)};
	int fd;

	CHECK(recvmsg(sock, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static CUmemGenericAllocationHandle chunk_new(size_t size)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle;

	OK(CU(cuMemCreate)(&handle, size, &prop, 0));
	return handle;
}

static void chunk_map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	OK(CU(cuMemMap)(at, size, 0, handle, 0));
	OK(CU(cuMemSetAccess)(at, size, &access, 1));
}

static CUdeviceptr reserve(size_t size)
{
	CUdeviceptr at;

	OK(CU(cuMemAddressReserve)(&at, size, 0, WANTED, 0));
	return at;
}

/* A chunk at `at' as the server makes one: it lives as long as its mapping. */
static void chunk_at(CUdeviceptr at, size_t size)
{
	CUmemGenericAllocationHandle handle = chunk_new(size);

	chunk_map(at, size, handle);
	OK(CU(cuMemRelease)(handle));
}

/* One of each kind of memory: 12 MiB. */
static void take_each_kind(int sock)
{
	CUDA_ARRAY_DESCRIPTOR shape = {1024, 2048, CU_AD_FORMAT_UNSIGNED_INT8, 1};
	CUdeviceptr p;
	CUarray array;

	(void)sock;
	chunk_at(reserve(UNIT), UNIT);
	chunk_new(2 * UNIT);
	OK(CU(cuMemAlloc)(&p, 2 * MIB));
	OK(CU(cuMemAllocAsync)(&p, 2 * MIB, NULL));
	OK(CU(cuArrayCreate)(&array, &shape));
}

/* What another process has is not free, until the process is killed. */
static void others_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle;
	struct process process = process_new(take_each_kind);
	CUdeviceptr p, q;

	process_await(&process);
	context_open();
	CHECK(free_bytes() == 4 * MIB);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate)(&handle, 6 * MIB, &prop, 0));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc)(&p, 4 * MIB + 1));
	OK(CU(cuMemAlloc)(&p, MIB));
	OK(CU(cuMemAlloc)(&q, MIB));
	handle = chunk_new(UNIT);
	CHECK(free_bytes() == 0);
	OK(CU(cuMemFree)(p));
	CHECK(free_bytes() == MIB);
	OK(CU(cuMemRelease)(handle));
	CHECK(free_bytes() == 3 * MIB);
	process_end(&process);
	CHECK(free_bytes() == 15 * MIB);
	OK(CU(cuMemFree)(q));
	CHECK(free_bytes() == 16 * MIB);
}
CARD_CHILD(others)

/* The driver frees what a process had a while after its end. */
static void late_child(void)
{
	struct process process = process_new(take_each_kind);
	unsigned n_ms = 0;

	process_await(&process);
	context_open();
	CHECK(free_bytes() == 4 * MIB);
	process_end(&process);
	CHECK(free_bytes() < 16 * MIB);
	for (; free_bytes() < 16 * MIB; n_ms++) {
		CHECK(n_ms < 10000);
		usleep(1000);
	}
	CHECK(n_ms > 0);
}

static void late(void **state)
{
	(void)state;
	in_child(late_child, CARD, card_setting, "SOFTGPU_CARD_LATE_MS=100", (char *)NULL);
}

static void export_chunk(int sock)
{
	CUmemGenericAllocationHandle handle = chunk_new(2 * UNIT);
	CUdeviceptr at = reserve(2 * UNIT);
	uint32_t word = 77;
	int fd;

	chunk_at(reserve(UNIT), UNIT);
	chunk_map(at, 2 * UNIT, handle);
	OK(CU(cuMemcpyHtoD)(at + UNIT, &word, sizeof(word)));
	OK(CU(cuMemExportToShareableHandle)(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	fd_send(sock, fd);
}

/* A descriptor keeps the bytes of a killed process, and so does a mapping of them. */
static void descriptor_child(void)
{
	struct process process = process_new(export_chunk);
	int fd = fd_receive(process.sock);
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	CUdeviceptr at;
	uint32_t word = 0;

	context_open();
	process_await(&process);
	CHECK(free_bytes() == 10 * MIB);
	process_end(&process);
	CHECK(free_bytes() == 12 * MIB);
	OK(CU(cuMemImportFromShareableHandle)(
		&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, handle));
	CHECK(prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0);
	at = reserve(2 * UNIT);
	chunk_map(at, 2 * UNIT, handle);
	OK(CU(cuMemRelease)(handle));
	close(fd);
	CHECK(free_bytes() == 12 * MIB);
	OK(CU(cuMemcpyDtoH)(&word, at + UNIT, sizeof(word)));
	CHECK(word == 77);
	OK(CU(cuMemUnmap)(at, 2 * UNIT));
	CHECK(free_bytes() == 16 * MIB);
}
CARD_CHILD(descriptor)

static void take_and_give(int sock)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	CHECK(write(sock, "r", 1) == 1);
	for (;;) {
		OK(CU(cuMemCreate)(&handle, UNIT, &prop, 0));
		OK(CU(cuMemAlloc)(&p, 1000));
		OK(CU(cuMemRelease)(handle));
		OK(CU(cuMemFree)(p));
	}
}

static void see_all_free(int sock)
{
	(void)sock;
	CHECK(free_bytes() == 16 * MIB);
}

/* Processes that are killed while they take memory leave nothing, and no lock. */
static void kills_child(void)
{
	for (unsigned i = 0; i < 20; i++) {
		struct process a = process_new(take_and_give), b = process_new(take_and_give), c;

		process_await(&a);
		process_await(&b);
		usleep(1000 + i * 300);
		process_end(&a);
		process_end(&b);
		c = process_new(see_all_free);
		process_await(&c);
		process_end(&c);
	}
}
CARD_CHILD(kills)

/* Chunks do not need to lie side by side, and fresh ones are zero. */
static void pieces_child(void)
{
	CUdeviceptr at;
	uint32_t word;

	context_open();
	at = reserve(8 * UNIT);
	for (int i = 0; i < 8; i++) {
		chunk_at(at + i * UNIT, UNIT);
		OK(CU(cuMemsetD32)(at + i * UNIT, 5, UNIT / 4));
	}
	OK(CU(cuCtxSynchronize)());
	CHECK(free_bytes() == 0);
	for (int i = 0; i < 8; i += 2)
		OK(CU(cuMemUnmap)(at + i * UNIT, UNIT));
	CHECK(free_bytes() == 4 * UNIT);
	chunk_new(4 * UNIT);
	OK(CU(cuMemUnmap)(at + UNIT, UNIT));
	chunk_at(at, UNIT);
	OK(CU(cuMemcpyDtoH)(&word, at + UNIT - 4, 4));
	CHECK(word == 0);
	OK(CU(cuMemcpyDtoH)(&word, at + 3 * UNIT, 4));
	CHECK(word == 5);
}
CARD_CHILD(pieces)

/* Only the bytes in use are memory of the host. */
static void host_memory_child(void)
{
	CUdeviceptr at;
	struct stat st;

	context_open();
	at = reserve(4 * UNIT);
	chunk_at(at, 4 * UNIT);
	OK(CU(cuMemsetD32)(at, 5, 4 * UNIT / 4));
	OK(CU(cuCtxSynchronize)());
	CHECK(fstat(card_fd, &st) == 0 && (size_t)st.st_blocks * 512 == 4 * UNIT);
	OK(CU(cuMemUnmap)(at, 4 * UNIT));
	CHECK(fstat(card_fd, &st) == 0 && st.st_blocks == 0);
}
CARD_CHILD(host_memory)

/* Each device has its own memory in the file. */
static void devices_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle, imported;
	size_t left, total;
	CUcontext context;
	int fd;

	context_open();
	prop.location.id = 1;
	OK(CU(cuMemCreate)(&handle, 3 * UNIT, &prop, 0));
	CHECK(free_bytes() == 16 * MIB);
	OK(CU(cuCtxCreate)(&context, NULL, 0, 1));
	CHECK(free_bytes() == 10 * MIB);
	OK(CU(cuMemExportToShareableHandle)(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(CU(cuMemImportFromShareableHandle)(
		&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, imported));
	CHECK(prop.location.id == 1);
	OK(CU(cuMemRelease)(handle));
	OK(CU(cuMemRelease)(imported));
	OK(CU(cuMemGetInfo)(&left, &total));
	CHECK(left == 10 * MIB);
	close(fd);
	CHECK(free_bytes() == 16 * MIB);
}

static void devices(void **state)
{
	(void)state;
	in_child(devices_child, CARD, card_setting, "SOFTGPU_DEVICES=2", (char *)NULL);
}

static void no_card_child(void)
{
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, CU(cuInit)(0));
}
CHILD(no_card, "SOFTGPU_CARD=/nonexistent/card")

/* What the server does to take a chunk from the card and to bring it back. */
struct moved {
	CUdeviceptr at;
	size_t size;
	char *store; /* registered */
};

static struct moved moved_new(size_t size)
{
	struct moved moved = {.at = reserve(size), .size = size};
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	moved.store = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(moved.store != MAP_FAILED);
	OK(CU(cuMemHostRegister)(moved.store, size, CU_MEMHOSTREGISTER_PORTABLE));
	chunk_at(moved.at, size);
	return moved;
}

static void moved_out(const struct moved *moved, CUstream stream)
{
	size_t left = free_bytes();

	OK(CU(cuMemcpyDtoHAsync)(moved->store, moved->at, moved->size, stream));
	OK(CU(cuStreamSynchronize)(stream));
	OK(CU(cuMemUnmap)(moved->at, moved->size));
	CHECK(free_bytes() == left + moved->size);
}

static void moved_in(const struct moved *moved, CUstream stream)
{
	chunk_at(moved->at, moved->size);
	OK(CU(cuMemcpyHtoDAsync)(moved->at, moved->store, moved->size, stream));
	OK(CU(cuStreamSynchronize)(stream));
}

/* c = a + b of 4 floats at `at'; then d = c. */
static CUgraphExec graph_new(CUdeviceptr at, CUdeviceptr c, CUdeviceptr d)
{
	CUdeviceptr b = at + 64;
	unsigned n = 4;
	void *params[] = {&at, &b, &c, &n};
	CUDA_KERNEL_NODE_PARAMS kernel = {.kern = (CUkernel)kernel_get(library_load(), "add"),
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 4,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = c,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = d,
		.WidthInBytes = 16,
		.Height = 1,
		.Depth = 1};
	CUgraphNode first, second;
	CUgraphExec exec;
	CUcontext context;
	CUgraph graph;

	OK(CU(cuCtxGetCurrent)(&context));
	OK(CU(cuGraphCreate)(&graph, 0));
	OK(CU(cuGraphAddKernelNode)(&first, graph, NULL, 0, &kernel));
	OK(CU(cuGraphAddMemcpyNode)(&second, graph, &first, 1, &copy, context));
	OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
	return exec;
}

/* An executable graph is right after its memory has left the card and come back. */
static void graph_moves_child(void)
{
	float sum[4], words[32] = {1, 2, 3, 4, [16] = 10, 20, 30, 40};
	struct moved moved;
	CUgraphExec exec;
	CUstream stream;

	context_open();
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	moved = moved_new(2 * UNIT);
	exec = graph_new(moved.at, moved.at + UNIT, moved.at + 2 * UNIT - 16);
	for (int i = 0; i < 3; i++) {
		words[0] = (float)i;
		OK(CU(cuMemcpyHtoD)(moved.at, words, sizeof(words)));
		moved_out(&moved, stream);
		moved_in(&moved, stream);
		OK(CU(cuGraphLaunch)(exec, stream));
		OK(CU(cuStreamSynchronize)(stream));
		OK(CU(cuMemcpyDtoH)(sum, moved.at + 2 * UNIT - 16, sizeof(sum)));
		CHECK(sum[0] == (float)i + 10 && sum[3] == 44);
	}
}
CARD_CHILD(graph_moves)

/* ... and faults while the memory is away. */
static void graph_away_child(void)
{
	struct moved moved;
	CUgraphExec exec;
	CUstream stream;

	context_open();
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	moved = moved_new(UNIT);
	exec = graph_new(moved.at, moved.at + 1024, moved.at + 2048);
	moved_out(&moved, stream);
	(void)CU(cuGraphLaunch)(exec, stream); /* it may have faulted already */
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuCtxSynchronize)());
}
CARD_CHILD(graph_away)

static void kernel_away_child(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = prop_device();
	struct moved moved;
	CUfunction poke;
	CUstream stream;

	context_open();
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	moved = moved_new(UNIT);
	poke = kernel_get(library_load(), "poke");
	moved_out(&moved, stream);
	(void)launch(poke, 1, 1, stream, (void *[]){&moved.at});
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuStreamSynchronize)(stream));
	/* After a fault, memory still comes and goes, but nothing is copied. */
	EXPECT(CUDA_SUCCESS, CU(cuMemCreate)(&handle, UNIT, &prop, 0));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuMemcpyDtoH)(moved.store, moved.at, 4));
}
CARD_CHILD(kernel_away)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define ROW(name) cmocka_unit_test_setup_teardown(name, card_make, card_remove)
		ROW(others),
		ROW(late),
		ROW(descriptor),
		ROW(kills),
		ROW(pieces),
		ROW(host_memory),
		ROW(devices),
		ROW(graph_moves),
		ROW(graph_away),
		ROW(kernel_away),
		cmocka_unit_test(no_card),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
