/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two GPUs of one process: copies between them of every kind, with and without peer access;
 * kernels on each that read and write the other's memory, from cudaMalloc(), from pools and
 * mapped by the program; events that order them; and the errors of enabling access twice.
 *
 * Runs: for a test of its own
 */

#define NAME "peers"
#include "../helpers/entry.h"
#include "../helpers/program.h"

enum {
	WORDS = 1 << 14,
	SIZE = WORDS * sizeof(unsigned),
	THREADS = 128
};

static __global__ void fill(unsigned *data, unsigned value)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;

	data[i] = value + i;
}

static __global__ void add(unsigned *sums, const unsigned *data)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;

	sums[i] += data[i];
}

static void expect(cudaError_t got, cudaError_t want, int line)
{
	if (got != want)
		FAIL("line %d: %s (%d) instead of %s", line, cudaGetErrorString(got), got,
			cudaGetErrorName(want));
	cudaGetLastError();
}

#define EXPECT(want, call) expect((call), (want), __LINE__)

/* On the current GPU: its own memory or the other's. */
static void check(const unsigned *data, unsigned value, unsigned step, int line)
{
	static unsigned host[WORDS];

	memset(host, 0xee, sizeof(host));
	CHECK(cudaMemcpy(host, data, SIZE, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != value + step * i)
			FAIL("line %d: word %u is %u instead of %u", line, i, host[i],
				value + step * i);
}

static void run_fill(int device, unsigned *data, unsigned value)
{
	CHECK(cudaSetDevice(device));
	fill<<<WORDS / THREADS, THREADS>>>(data, value);
	CHECK(cudaDeviceSynchronize());
}

/* Needs no peer access. */
static void run_copies(unsigned *const data[2])
{
	for (int from = 0; from < 2; from++) {
		int to = !from;

		run_fill(from, data[from], 10);
		run_fill(to, data[to], 20);
		CHECK(cudaMemcpyPeer(data[to], to, data[from], from, SIZE));
		check(data[to], 10, 1, __LINE__);
		run_fill(from, data[from], 30);
		CHECK(cudaMemcpyPeerAsync(
			data[to], to, data[from], from, SIZE, cudaStreamPerThread));
		CHECK(cudaStreamSynchronize(cudaStreamPerThread));
		CHECK(cudaSetDevice(to));
		check(data[to], 30, 1, __LINE__);
		run_fill(from, data[from], 40);
		CHECK(cudaMemcpy(data[to], data[from], SIZE, cudaMemcpyDefault));
		CHECK(cudaSetDevice(to));
		check(data[to], 40, 1, __LINE__);
		/* The other's stream, while this GPU is current. */
		check(data[from], 40, 1, __LINE__);
	}
}

static void enable(void)
{
	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		EXPECT(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(!device));
		EXPECT(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(!device, 1));
		CHECK(cudaDeviceEnablePeerAccess(!device, 0));
		EXPECT(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(!device, 0));
	}
}

/* Each works on the other's memory, ordered by events. */
static void run_kernels(unsigned *const data[2])
{
	cudaStream_t streams[2];
	cudaEvent_t done[2];

	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
		CHECK(cudaEventCreateWithFlags(&done[device], cudaEventDisableTiming));
		fill<<<WORDS / THREADS, THREADS, 0, streams[device]>>>(data[!device], device);
		CHECK(cudaEventRecord(done[device], streams[device]));
	}
	for (unsigned turn = 0; turn < 8; turn++) {
		int device = turn % 2;

		CHECK(cudaSetDevice(device));
		CHECK(cudaStreamWaitEvent(streams[device], done[!device], 0));
		add<<<WORDS / THREADS, THREADS, 0, streams[device]>>>(data[!device], data[device]);
		CHECK(cudaEventRecord(done[device], streams[device]));
	}
	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		CHECK(cudaStreamSynchronize(streams[device]));
	}
	/* 1, 0: the 0th turn adds data[0] to data[1], the next the other way. */
	unsigned first[2] = {1, 0}, step[2] = {1, 1};

	for (unsigned turn = 0; turn < 8; turn++) {
		first[!(turn % 2)] += first[turn % 2];
		step[!(turn % 2)] += step[turn % 2];
	}
	for (int device = 0; device < 2; device++) {
		check(data[device], first[device], step[device], __LINE__);
		CHECK(cudaSetDevice(device));
		CHECK(cudaStreamDestroy(streams[device]));
		CHECK(cudaEventDestroy(done[device]));
	}
}

/* Memory of a pool is accessible to the other GPU as the program sets it. */
static void run_pool(void)
{
	cudaMemAccessDesc access = {
		{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
	cudaMemAccessFlags flags;
	cudaMemPool_t pool;
	unsigned *data;

	CHECK(cudaSetDevice(1));
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 1));
	CHECK(cudaMallocAsync((void **)&data, SIZE, cudaStreamPerThread));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	CHECK(cudaMemPoolGetAccess(&flags, pool, &access.location));
	if (flags != cudaMemAccessFlagsProtNone)
		FAIL("a pool without access for the other GPU has flags %d", flags);
	CHECK(cudaMemPoolSetAccess(pool, &access, 1));
	CHECK(cudaMemPoolGetAccess(&flags, pool, &access.location));
	if (flags != cudaMemAccessFlagsProtReadWrite)
		FAIL("a pool that was opened has flags %d", flags);
	run_fill(0, data, 50);
	CHECK(cudaSetDevice(1));
	check(data, 50, 1, __LINE__);
	CHECK(cudaFreeAsync(data, cudaStreamPerThread));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	access.flags = cudaMemAccessFlagsProtNone;
	CHECK(cudaMemPoolSetAccess(pool, &access, 1));
}

static void check_access(CUdeviceptr address, int device, unsigned long long want, int line)
{
	const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
	unsigned long long flags = 99;

	DRIVER(CUDA_SUCCESS, cuMemGetAccess, &flags, &location, address);
	if (flags != want)
		FAIL("line %d: GPU %d has access %llu instead of %llu", line, device, flags, want);
}

/* Memory of one GPU, mapped at two addresses: for both GPUs, and for the other alone. */
static void run_mapped(void)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access[2] = {};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr both = 0, alone = 0;
	size_t size = 2 << 20;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 1;
	for (int device = 0; device < 2; device++) {
		access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access[device].location.id = device;
		access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	DRIVER(CUDA_SUCCESS, cuMemCreate, &handle, size, &prop, 0);
	DRIVER(CUDA_SUCCESS, cuMemAddressReserve, &both, size, 0, 0, 0);
	DRIVER(CUDA_SUCCESS, cuMemAddressReserve, &alone, size, 0, 0, 0);
	DRIVER(CUDA_SUCCESS, cuMemMap, both, size, 0, handle, 0);
	DRIVER(CUDA_SUCCESS, cuMemMap, alone, size, 0, handle, 0);
	check_access(both, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE, __LINE__);
	DRIVER(CUDA_SUCCESS, cuMemSetAccess, both, size, access, 2);
	DRIVER(CUDA_SUCCESS, cuMemSetAccess, alone, size, access, 1);
	check_access(both, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, __LINE__);
	check_access(both, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, __LINE__);
	check_access(alone, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, __LINE__);
	check_access(alone, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE, __LINE__);
	run_fill(0, (unsigned *)alone, 60);
	check((unsigned *)alone, 60, 1, __LINE__);
	CHECK(cudaSetDevice(1));
	check((unsigned *)both, 60, 1, __LINE__);
	run_fill(1, (unsigned *)both, 70);
	CHECK(cudaSetDevice(0));
	check((unsigned *)alone, 70, 1, __LINE__);
	/* After one GPU's access is removed, the other still has access. */
	access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	DRIVER(CUDA_SUCCESS, cuMemSetAccess, both, size, &access[1], 1);
	check_access(both, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE, __LINE__);
	check((unsigned *)both, 70, 1, __LINE__);
	DRIVER(CUDA_SUCCESS, cuMemUnmap, both, size);
	DRIVER(CUDA_SUCCESS, cuMemUnmap, alone, size);
	DRIVER(CUDA_SUCCESS, cuMemRelease, handle);
	DRIVER(CUDA_SUCCESS, cuMemAddressFree, both, size);
	DRIVER(CUDA_SUCCESS, cuMemAddressFree, alone, size);
}

/* Memory mapped for its own GPU only can be copied between GPUs, but not accessed otherwise. */
static void run_mapped_apart(void)
{
	CUmemGenericAllocationHandle handles[2];
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUdeviceptr at[2] = {};
	CUcontext contexts[2];
	size_t size = 2 << 20;
	cudaStream_t stream;
	unsigned *pinned;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		DRIVER(CUDA_SUCCESS, cuCtxGetCurrent, &contexts[device]);
		prop.location.id = access.location.id = device;
		DRIVER(CUDA_SUCCESS, cuMemCreate, &handles[device], size, &prop, 0);
		DRIVER(CUDA_SUCCESS, cuMemAddressReserve, &at[device], size, 0, 0, 0);
		DRIVER(CUDA_SUCCESS, cuMemMap, at[device], size, 0, handles[device], 0);
		DRIVER(CUDA_SUCCESS, cuMemSetAccess, at[device], size, &access, 1);
		run_fill(device, (unsigned *)at[device], 80 + 10 * device);
		CHECK(cudaDeviceSynchronize());
	}
	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&pinned, SIZE));
	DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync, at[0], at[1], SIZE, (CUstream)stream);
	DRIVER(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync, pinned, at[1], SIZE, (CUstream)stream);
	DRIVER(CUDA_SUCCESS, cuMemcpyPeerAsync, at[0], contexts[0], at[1], contexts[1], SIZE,
		(CUstream)stream);
	CHECK(cudaStreamSynchronize(stream));
	check((unsigned *)at[0], 90, 1, __LINE__);
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaStreamDestroy(stream));
	DRIVER(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, contexts[0], 0);
	DRIVER(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, contexts[0]);
	for (int device = 0; device < 2; device++) {
		DRIVER(CUDA_SUCCESS, cuMemUnmap, at[device], size);
		DRIVER(CUDA_SUCCESS, cuMemRelease, handles[device]);
		DRIVER(CUDA_SUCCESS, cuMemAddressFree, at[device], size);
	}
}

static void run_peers(unsigned *const data[2])
{
	unsigned *later[2];

	enable();
	run_kernels(data);
	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		CHECK(cudaMalloc(&later[device], SIZE));
	}
	run_kernels(later);
	run_copies(later);
	run_pool();
	run_mapped();
	run_mapped_apart();
	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		CHECK(cudaFree(later[device]));
		CHECK(cudaDeviceDisablePeerAccess(!device));
	}
}

int main(void)
{
	int n_devices, can[2], attribute, own;
	unsigned *data[2];

	CHECK(cudaGetDeviceCount(&n_devices));
	if (n_devices < 2)
		FAIL("this takes two GPUs");
	for (int device = 0; device < 2; device++) {
		CHECK(cudaDeviceCanAccessPeer(&can[device], device, !device));
		CHECK(cudaDeviceCanAccessPeer(&own, device, device));
		CHECK(cudaDeviceGetP2PAttribute(
			&attribute, cudaDevP2PAttrAccessSupported, device, !device));
		if (own != 0 || attribute != can[device])
			FAIL("GPU %d: itself %d, the other %d, by its attribute %d", device, own,
				can[device], attribute);
		EXPECT(cudaErrorInvalidDevice,
			cudaDeviceGetP2PAttribute(
				&attribute, cudaDevP2PAttrAccessSupported, device, device));
		CHECK(cudaSetDevice(device));
		CHECK(cudaMalloc(&data[device], SIZE));
	}
	run_copies(data);
	if (can[0] && can[1])
		run_peers(data);
	run_copies(data);
	for (int device = 0; device < 2; device++)
		CHECK(cudaFree(data[device]));
	printf(NAME ": ok\n");
	return 0;
}
