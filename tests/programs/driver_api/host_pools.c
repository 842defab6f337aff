/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools of pinned and of managed memory: the default and the current pool of each place, what
 * is refused, who has access, what pointers say about their memory, allocations and frees in
 * the order of streams, and memory that a kernel and the host both use.
 */

#define NAME "host_pools"
#include <stdint.h>
#include <string.h>

#include "../helpers/driver_program.h"

#define N 100000
#define PINNED CU_MEM_ALLOCATION_TYPE_PINNED
#define MANAGED CU_MEM_ALLOCATION_TYPE_MANAGED
#define REFUSE(call) EXPECT(CUDA_ERROR_INVALID_VALUE, call)

/* Adds 1 to each of n bytes. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry add(.param .u64 bytes, .param .u32 n)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n"
			    "	.reg .b64 %d<3>;\n"
			    "	.reg .b32 %r<6>;\n"
			    "	ld.param.u64 %d1, [bytes];\n"
			    "	ld.param.u32 %r1, [n];\n"
			    "	mov.u32 %r2, %ctaid.x;\n"
			    "	mov.u32 %r3, %ntid.x;\n"
			    "	mov.u32 %r4, %tid.x;\n"
			    "	mad.lo.u32 %r2, %r2, %r3, %r4;\n"
			    "	setp.ge.u32 %p1, %r2, %r1;\n"
			    "	@%p1 bra END;\n"
			    "	cvt.u64.u32 %d2, %r2;\n"
			    "	add.u64 %d1, %d1, %d2;\n"
			    "	ld.global.u8 %r5, [%d1];\n"
			    "	add.u32 %r5, %r5, 1;\n"
			    "	st.global.u8 [%d1], %r5;\n"
			    "END:\n"
			    "	ret;\n"
			    "}\n";

static const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
static const CUmemLocation no_device = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
static const CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0};
static const CUmemLocation same_host = {CU_MEM_LOCATION_TYPE_HOST, 7};
static const CUmemLocation node = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
static const CUmemLocation no_node = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 1000};
static const CUmemLocation own_node = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
static const CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_NONE, 0};

static CUfunction add;
static CUstream stream;

static CUresult get_default(CUmemLocation place, CUmemAllocationType type, CUmemoryPool *ret_pool)
{
	return cuMemGetDefaultMemPool(ret_pool, &place, type);
}

static CUmemoryPool default_pool(CUmemLocation place, CUmemAllocationType type)
{
	CUmemoryPool pool;

	CHECK(get_default(place, type, &pool));
	return pool;
}

static CUmemoryPool current_pool(CUmemLocation place, CUmemAllocationType type)
{
	CUmemoryPool pool;

	CHECK(cuMemGetMemPool(&pool, &place, type));
	return pool;
}

static CUresult create(CUmemLocation place, CUmemAllocationType type,
	CUmemAllocationHandleType shared, size_t size_max, CUmemoryPool *ret_pool)
{
	CUmemPoolProps props = {.allocType = type, .handleTypes = shared, .location = place};

	props.maxSize = size_max;
	return cuMemPoolCreate(ret_pool, &props);
}

static CUmemoryPool new_pool(CUmemLocation place, CUmemAllocationType type)
{
	CUmemoryPool pool;

	CHECK(create(place, type, CU_MEM_HANDLE_TYPE_NONE, 0, &pool));
	return pool;
}

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 12345;

	CHECK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static CUresult set_access(CUmemoryPool pool, CUmemLocation place, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {place, flags};

	return cuMemPoolSetAccess(pool, &access, 1);
}

static CUmemAccess_flags access_of(CUmemoryPool pool, CUmemLocation place)
{
	CUmemAccess_flags flags = (CUmemAccess_flags)99;

	CHECK(cuMemPoolGetAccess(&flags, pool, &place));
	return flags;
}

static void each_place_has_pools(CUmemLocation place, CUmemAllocationType type)
{
	CUmemoryPool initial = default_pool(place, type), pool = new_pool(place, type);

	MUST(default_pool(place, type) == initial && current_pool(place, type) == initial);
	CHECK(cuMemSetMemPool(&place, type, pool));
	MUST(current_pool(place, type) == pool && default_pool(place, type) == initial);
	CHECK(cuMemPoolDestroy(pool));
	MUST(current_pool(place, type) == initial);
	if (place.type != CU_MEM_LOCATION_TYPE_DEVICE)
		REFUSE(cuDeviceSetMemPool(0, initial));
	REFUSE(cuMemPoolDestroy(initial));
}

/*
 * The pools of a device for pinned and for managed memory, and that of the host, are set apart.
 * Natively, a pool that was current when cuDeviceGetMemPool() was called is followed by another
 * one than the default, so no current pool is destroyed here.
 */
static void device_has_two_pools(void)
{
	CUmemoryPool of_host = new_pool(host, PINNED), managed = new_pool(device, MANAGED), pool;

	CHECK(cuMemSetMemPool((CUmemLocation *)&host, PINNED, of_host));
	CHECK(cuDeviceSetMemPool(0, managed));
	CHECK(cuDeviceGetMemPool(&pool, 0));
	MUST(pool == default_pool(device, PINNED) && current_pool(device, PINNED) == pool);
	MUST(current_pool(device, MANAGED) == managed && current_pool(host, PINNED) == of_host);
	CHECK(cuDeviceSetMemPool(0, default_pool(device, MANAGED)));
	CHECK(cuMemSetMemPool((CUmemLocation *)&host, PINNED, default_pool(host, PINNED)));
	CHECK(cuMemPoolDestroy(managed));
	CHECK(cuMemPoolDestroy(of_host));
}

static void places(void)
{
	CUmemoryPool pool, of_device;

	each_place_has_pools(host, PINNED);
	each_place_has_pools(node, PINNED);
	each_place_has_pools(device, MANAGED);
	each_place_has_pools(host, MANAGED);
	each_place_has_pools(node, MANAGED);
	each_place_has_pools(nowhere, MANAGED);
	device_has_two_pools();
	CHECK(cuDeviceGetDefaultMemPool(&of_device, 0));
	MUST(default_pool(device, PINNED) == of_device);
	MUST(default_pool(host, PINNED) == default_pool(same_host, PINNED));
	MUST(default_pool(host, PINNED) != default_pool(node, PINNED));
	MUST(default_pool(host, PINNED) != default_pool(host, MANAGED));
	MUST(default_pool(device, MANAGED) != of_device);
	REFUSE(get_default(nowhere, PINNED, &pool));
	REFUSE(get_default(no_node, PINNED, &pool));
	REFUSE(get_default(no_device, PINNED, &pool));
	REFUSE(get_default(device, CU_MEM_ALLOCATION_TYPE_INVALID, &pool));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, get_default(own_node, PINNED, &pool));
}

static void creations(void)
{
	const CUmemAllocationHandleType fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	const CUmemAllocationHandleType none = CU_MEM_HANDLE_TYPE_NONE;
	CUmemoryPool pool;

	REFUSE(create(nowhere, PINNED, none, 0, &pool));
	REFUSE(create(own_node, PINNED, none, 0, &pool));
	REFUSE(create(no_node, PINNED, none, 0, &pool));
	REFUSE(create(no_device, PINNED, none, 0, &pool));
	REFUSE(create(host, PINNED, fd, 0, &pool));
	REFUSE(create(device, MANAGED, fd, 0, &pool));
	REFUSE(create(device, MANAGED, none, 1 << 20, &pool));
	CHECK(create(host, PINNED, none, 1 << 20, &pool));
	CHECK(cuMemPoolDestroy(pool));
}

static void pinned_access(CUmemoryPool pool)
{
	const CUmemAccess_flags none = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	const CUmemAccess_flags both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

	MUST(access_of(pool, host) == both && access_of(pool, node) == both);
	MUST(access_of(pool, device) == none);
	CHECK(set_access(pool, device, both));
	MUST(access_of(pool, device) == both);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_READ));
	CHECK(set_access(pool, device, none));
	MUST(access_of(pool, device) == none);
	CHECK(set_access(pool, host, both));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, host, none));
	REFUSE(set_access(pool, own_node, both));
}

/* A device has no pointer to the memory until it has access; the host has one. */
static void without_access(CUmemoryPool pool)
{
	unsigned char bytes[4] = {1, 2, 3, 4};
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
	CUdeviceptr memory, address;
	void *value = &address;
	size_t size;

	CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
	CHECK(cuStreamSynchronize(stream));
	REFUSE(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
	CHECK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory));
	MUST(address == 0);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&address, &size, memory));
	address = 1;
	CHECK(cuPointerGetAttributes(1, &attribute, &value, memory));
	MUST(address == 0);
	REFUSE(cuMemsetD8(memory, 7, N));
	REFUSE(cuMemcpyDtoH(bytes, memory, sizeof(bytes)));
	memset((void *)memory, 5, N);
	CHECK(set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	CHECK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory));
	MUST(address == memory);
	CHECK(cuMemGetAddressRange(&address, &size, memory));
	MUST(address == memory && size == N);
	CHECK(cuMemcpy((CUdeviceptr)bytes, memory, sizeof(bytes)));
	MUST(bytes[3] == 5);
	CHECK(cuMemFreeAsync(memory, stream));
}

static void pointer(CUdeviceptr memory, CUmemoryPool pool, int is_managed)
{
	CUmemoryPool found;
	CUcontext context;
	unsigned type, managed;
	size_t size;
	void *address;

	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	MUST(type == (is_managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
	CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
	MUST((int)managed == is_managed);
	CHECK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
	MUST(address == (void *)memory);
	CHECK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
	MUST(found == pool);
	CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
	MUST(!context);
	CHECK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory));
	MUST(size == N);
}

static void launch(CUdeviceptr memory)
{
	unsigned n = N;
	void *params[] = {&memory, &n};

	CHECK(cuLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static void must_be(CUdeviceptr memory, unsigned char value)
{
	const unsigned char *bytes = (const unsigned char *)memory;

	for (size_t i = 0; i < N; i++)
		MUST(bytes[i] == value);
}

/* Each round uses memory that the round before has freed, without a wait between them. */
static void rounds(CUmemoryPool pool)
{
	static unsigned char bytes[N];
	CUdeviceptr memory;

	for (unsigned char i = 0; i < 20; i++) {
		CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
		CHECK(cuMemsetD8Async(memory, i, N, stream));
		launch(memory);
		CHECK(cuMemcpyAsync((CUdeviceptr)bytes, memory, N, stream));
		CHECK(cuMemFreeAsync(memory, stream));
	}
	CHECK(cuStreamSynchronize(stream));
	MUST(bytes[0] == 20 && bytes[N - 1] == 20);
}

static void use(CUmemoryPool pool, int is_managed)
{
	CUdeviceptr memory, other;
	unsigned flags;

	MUST(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
	MUST(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == N);
	MUST(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= N);
	MUST(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= N);
	CHECK(cuMemsetD8Async(memory, 1, N, stream));
	CHECK(cuStreamSynchronize(stream));
	must_be(memory, 1);
	memset((void *)memory, 2, N);
	launch(memory);
	CHECK(cuStreamSynchronize(stream));
	must_be(memory, 3);
	pointer(memory, pool, is_managed);
	REFUSE(cuMemFreeHost((void *)memory));
	REFUSE(cuMemHostGetFlags(&flags, (void *)memory));
	CHECK(cuMemAllocFromPoolAsync(&other, N, pool, stream));
	CHECK(cuMemFree(other));
	must_be(memory, 3);
	CHECK(cuMemFreeAsync(memory, stream));
	REFUSE(cuMemFreeAsync(memory, stream));
	rounds(pool);
	CHECK(cuMemPoolTrimTo(pool, 0));
	MUST(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/*
 * The memory of a destroyed pool stays until it is freed. With driver 580, the host then reads old
 * bytes if the pool was at CU_MEM_LOCATION_TYPE_NONE, and an access to memory of a later pool can
 * end the program. So this comes last, for pools of two other places.
 */
static void outlives(CUmemoryPool pool)
{
	CUdeviceptr memory;

	CHECK(set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
	CHECK(cuMemsetD8Async(memory, 8, N, stream));
	CHECK(cuMemPoolDestroy(pool));
	launch(memory);
	CHECK(cuStreamSynchronize(stream));
	must_be(memory, 9);
	CHECK(cuMemFreeAsync(memory, stream));
	CHECK(cuStreamSynchronize(stream));
}

static void pinned(CUmemLocation place)
{
	CUmemoryPool pool = new_pool(place, PINNED);

	pinned_access(pool);
	without_access(pool);
	CHECK(cuStreamSynchronize(stream));
	use(pool, 0);
	CHECK(cuMemPoolDestroy(pool));
}

/* A pool's place is the preferred location of its memory, and no other advice is taken. */
static void advice(CUmemoryPool pool, CUmemLocation place)
{
	CUdeviceptr memory;
	int value;

	CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
	CHECK(cuMemPrefetchAsync(memory, N, device, 0, stream));
	CHECK(cuMemRangeGetAttribute(&value, sizeof(value),
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, memory, N));
	MUST(value == CU_MEM_LOCATION_TYPE_DEVICE);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		cuMemAdvise(memory, N, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	CHECK(cuMemRangeGetAttribute(
		&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory, N));
	MUST(place.type != CU_MEM_LOCATION_TYPE_DEVICE || value == CU_MEM_LOCATION_TYPE_DEVICE);
	MUST(place.type != CU_MEM_LOCATION_TYPE_NONE || value == CU_MEM_LOCATION_TYPE_NONE);
	REFUSE(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_GLOBAL));
	CHECK(cuMemFreeAsync(memory, stream));
	CHECK(cuStreamSynchronize(stream));
	REFUSE(cuMemRangeGetAttribute(
		&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, N));
}

static void managed(CUmemLocation place)
{
	const CUmemAccess_flags none = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	const CUmemAccess_flags both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUmemoryPool pool = new_pool(place, MANAGED);

	/* All may access managed memory, whatever the program says. */
	MUST(access_of(pool, device) == none && access_of(pool, host) == none);
	CHECK(set_access(pool, device, both));
	MUST(access_of(pool, device) == both);
	CHECK(set_access(pool, device, none));
	MUST(access_of(pool, device) == none);
	CHECK(set_access(pool, host, both));
	CHECK(set_access(pool, host, none));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_READ));
	use(pool, 1);
	advice(pool, place);
	CHECK(cuMemPoolDestroy(pool));
}

/* Of a pool of device memory, whose own device always has access. */
static void device_access(void)
{
	const CUmemAccess_flags both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUmemoryPool pool = new_pool(device, PINNED);
	unsigned is_sync = 1;
	CUdeviceptr memory;

	MUST(access_of(pool, device) == both);
	MUST(access_of(pool, host) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CHECK(set_access(pool, device, both));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_READ));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, set_access(pool, device, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, host, both));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, set_access(pool, host, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	CHECK(cuMemAllocFromPoolAsync(&memory, N, pool, stream));
	MUST(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == N);
	CHECK(cuPointerGetAttribute(&is_sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	MUST(!is_sync);
	is_sync = 1;
	CHECK(cuPointerSetAttribute(&is_sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	CHECK(cuMemFreeAsync(memory, stream));
	CHECK(cuMemPoolDestroy(pool));
}

static void attributes_agree(void)
{
	int value;

	CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
	MUST(value == 1);
	CHECK(cuDeviceGetAttribute(
		&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0));
	MUST(value == 1);
}

int main(void)
{
	CUcontext context;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&add, module, "add"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	attributes_agree();
	places();
	creations();
	device_access();
	pinned(host);
	pinned(node);
	managed(device);
	managed(host);
	managed(node);
	managed(nowhere);
	outlives(new_pool(device, MANAGED));
	outlives(new_pool(host, PINNED));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
