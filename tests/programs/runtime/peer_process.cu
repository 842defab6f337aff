/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two processes with a GPU each: a child forked before any use of CUDA opens its parent's memory
 * on the other GPU, by descriptor and by handle, and works there; each waits for and records
 * events of the other GPU. With the argument `alone', each process sees only its own GPU.
 *
 * Runs: for a test of its own
 */

#define NAME "peer_process"
#include "../helpers/entry.h"
#include "../helpers/program.h"
#include "../helpers/two_processes.h"

enum {
	MAPPED = 2 << 20,
	WORDS = 1 << 14,
	SIZE = WORDS * sizeof(unsigned),
	THREADS = 128,
	TURNS = 6
};

struct ticket {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

static int device; /* this process's GPU, by its ordinal here */

static __global__ void add_late(unsigned *data, unsigned value, long ticks)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;

	for (long start = clock64(); clock64() - start < ticks;)
		;
	data[i] += value + i;
}

static void check(const unsigned *data, unsigned value, unsigned step, int line)
{
	static unsigned host[WORDS];

	CHECK(cudaMemcpy(host, data, SIZE, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != value + step * i)
			FAIL("line %d: word %u is %u instead of %u", line, i, host[i],
				value + step * i);
}

static CUmemAllocationProp make_prop(void)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	return prop;
}

/* Reserves addresses for it, and gives this process's GPU access. */
static unsigned *map(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {};
	CUdeviceptr address = 0;

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DRIVER(CUDA_SUCCESS, cuMemAddressReserve, &address, MAPPED, 0, 0, 0);
	DRIVER(CUDA_SUCCESS, cuMemMap, address, MAPPED, 0, handle, 0);
	DRIVER(CUDA_SUCCESS, cuMemSetAccess, address, MAPPED, &access, 1);
	return (unsigned *)address;
}

static void unmap(unsigned *data, CUmemGenericAllocationHandle handle)
{
	DRIVER(CUDA_SUCCESS, cuMemUnmap, (CUdeviceptr)data, MAPPED);
	DRIVER(CUDA_SUCCESS, cuMemRelease, handle);
	DRIVER(CUDA_SUCCESS, cuMemAddressFree, (CUdeviceptr)data, MAPPED);
}

static void parent_run_mapped(int sock)
{
	CUmemAllocationProp prop = make_prop();
	CUmemGenericAllocationHandle handle;
	unsigned *data;
	int fd = -1;

	DRIVER(CUDA_SUCCESS, cuMemCreate, &handle, MAPPED, &prop, 0);
	data = map(handle);
	CHECK(cudaMemset(data, 0, SIZE));
	CHECK(cudaDeviceSynchronize());
	DRIVER(CUDA_SUCCESS, cuMemExportToShareableHandle, &fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	tell_descriptor(sock, fd);
	close(fd);
	hear_word(sock);
	check(data, 5, 1, __LINE__);
	unmap(data, handle);
	tell_word(sock);
}

static void child_run_mapped(int sock, bool is_alone)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {};
	size_t unit = 0;
	int fd = hear_descriptor(sock);
	unsigned *data;

	DRIVER(CUDA_SUCCESS, cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	DRIVER(CUDA_SUCCESS, cuMemGetAllocationPropertiesFromHandle, &prop, handle);
	if (prop.location.id != (is_alone ? CU_DEVICE_INVALID : 0))
		FAIL("what is imported lies on GPU %d", prop.location.id);
	DRIVER(CUDA_SUCCESS, cuMemGetAllocationGranularity, &unit, &prop,
		CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	data = map(handle);
	add_late<<<WORDS / THREADS, THREADS>>>(data, 5, 0);
	CHECK(cudaDeviceSynchronize());
	tell_word(sock);
	hear_word(sock);
	/* The parent has freed it: the bytes stay. */
	check(data, 5, 1, __LINE__);
	unmap(data, handle);
}

/* Both add to the parent's memory in turns, ordered by events alone: each records its own. */
static void take_turns(int sock, unsigned *data, cudaEvent_t own, cudaEvent_t other, bool is_first)
{
	cudaStream_t stream;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		if (turn % 2 == !is_first) {
			add_late<<<WORDS / THREADS, THREADS, 0, stream>>>(data, turn, 20000);
			CHECK(cudaEventRecord(own, stream));
			tell_word(sock);
		} else {
			hear_word(sock);
			CHECK(cudaStreamWaitEvent(stream, other, 0));
		}
	}
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaStreamDestroy(stream));
}

static void parent_run_handles(int sock)
{
	cudaEvent_t event, other;
	struct ticket ticket, theirs;
	unsigned *data;

	CHECK(cudaMalloc(&data, SIZE));
	CHECK(cudaMemset(data, 0, SIZE));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
	CHECK(cudaIpcGetMemHandle(&ticket.memory, data));
	CHECK(cudaIpcGetEventHandle(&ticket.event, event));
	tell(sock, &ticket, sizeof(ticket));
	hear(sock, &theirs, sizeof(theirs));
	CHECK(cudaIpcOpenEventHandle(&other, theirs.event));
	take_turns(sock, data, event, other, true);
	hear_word(sock);
	check(data, TURNS * (TURNS - 1) / 2, TURNS, __LINE__);
	/* This process's event, which the other has recorded by now. */
	tell_word(sock);
	hear_word(sock);
	CHECK(cudaEventSynchronize(event));
	check(data, TURNS * (TURNS - 1) / 2 + 100, TURNS + 1, __LINE__);
	tell_word(sock);
	hear_word(sock);
	CHECK(cudaEventDestroy(other));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaFree(data));
}

/* After work on this process's GPU. */
static void record_theirs(unsigned *data, cudaEvent_t theirs)
{
	cudaStream_t stream;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	add_late<<<WORDS / THREADS, THREADS, 0, stream>>>(data, 100, 20000);
	CHECK(cudaEventRecord(theirs, stream));
	CHECK(cudaStreamDestroy(stream));
}

static void child_run_handles(int sock)
{
	cudaEvent_t event, other;
	struct ticket ticket, ours = {};
	unsigned *data;

	hear(sock, &ticket, sizeof(ticket));
	CHECK(cudaIpcOpenMemHandle((void **)&data, ticket.memory, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcOpenEventHandle(&other, ticket.event));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
	CHECK(cudaIpcGetEventHandle(&ours.event, event));
	tell(sock, &ours, sizeof(ours));
	take_turns(sock, data, event, other, false);
	check(data, TURNS * (TURNS - 1) / 2, TURNS, __LINE__);
	tell_word(sock);
	hear_word(sock);
	record_theirs(data, other);
	tell_word(sock);
	CHECK(cudaEventSynchronize(other));
	hear_word(sock);
	CHECK(cudaIpcCloseMemHandle(data));
	CHECK(cudaEventDestroy(other));
	CHECK(cudaEventDestroy(event));
	tell_word(sock);
}

static void choose(bool is_alone, int number)
{
	if (is_alone)
		setenv("CUDA_VISIBLE_DEVICES", number ? "1" : "0", 1);
	device = is_alone ? 0 : number;
	CHECK(cudaSetDevice(device));
}

int main(int argc, char **argv)
{
	bool is_alone = argc > 1 && !strcmp(argv[1], "alone");
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return 1;
	child = fork();
	close(ends[child != 0]);
	if (child == 0) {
		choose(is_alone, 1);
		child_run_mapped(ends[1], is_alone);
		child_run_handles(ends[1]);
		exit(0);
	}
	choose(is_alone, 0);
	parent_run_mapped(ends[0]);
	parent_run_handles(ends[0]);
	wait_for_child(child, 0);
	printf(NAME ": ok\n");
	return 0;
}
