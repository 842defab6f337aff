/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools of device memory in the driver API: the default pool, a created pool made
 * current, attributes before and after allocations, thresholds and trims, and what is
 * refused.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "pool_attributes"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define REFUSE(call) expect((call), CUDA_ERROR_INVALID_VALUE, #call, __LINE__)

#define MIB ((size_t)1 << 20)

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

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 12345;

	CHECK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static uint64_t used(CUmemoryPool pool)
{
	return get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

static uint64_t reserved(CUmemoryPool pool)
{
	return get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static void set(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value)
{
	CHECK(cuMemPoolSetAttribute(pool, attribute, &value));
}

static CUmemoryPool pool_make(CUdevice device)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* The attributes of a new pool, and whether it keeps a change. */
static void fresh(CUmemoryPool pool)
{
	static const CUmemPool_attribute reuses[] = {
		CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	};

	check(used(pool) == 0, "a new pool has used memory", used(pool));
	check(reserved(pool) == 0, "a new pool has memory", reserved(pool));
	check(get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0, "a new threshold",
		get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
	for (size_t i = 0; i < sizeof(reuses) / sizeof(reuses[0]); i++) {
		int value = 5;

		CHECK(cuMemPoolGetAttribute(pool, reuses[i], &value));
		check(value == 1, "a new pool's reuse", (unsigned)value);
		value = 0;
		CHECK(cuMemPoolSetAttribute(pool, reuses[i], &value));
		value = 5;
		CHECK(cuMemPoolGetAttribute(pool, reuses[i], &value));
		check(value == 0, "a reuse that was switched off", (unsigned)value);
		value = 1;
		CHECK(cuMemPoolSetAttribute(pool, reuses[i], &value));
	}
}

static void threshold(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr ptr;

	/* Without a threshold, memory is released once the host has waited. */
	CHECK(cuMemAllocFromPoolAsync(&ptr, 8 * MIB, pool, stream));
	check(used(pool) >= 8 * MIB && used(pool) < 16 * MIB, "used", used(pool));
	check(reserved(pool) >= used(pool), "reserved", reserved(pool));
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
	check(used(pool) == 0, "used after the free", used(pool));
	check(reserved(pool) == 0, "reserved after the wait", reserved(pool));
	check(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 8 * MIB, "the most that was used",
		get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	check(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 8 * MIB, "the most that was there",
		get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
	set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
	set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
	check(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0, "a high mark set back",
		get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));

	/* All of it is kept, until it is trimmed. */
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	check(get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == UINT64_MAX, "the threshold",
		get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
	CHECK(cuMemAllocFromPoolAsync(&ptr, 8 * MIB, pool, stream));
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
	check(used(pool) == 0, "used", used(pool));
	check(reserved(pool) >= 8 * MIB, "reserved below the threshold", reserved(pool));
	CHECK(cuMemPoolTrimTo(pool, 4 * MIB));
	check(reserved(pool) >= 4 * MIB, "reserved after a trim that keeps some", reserved(pool));
	CHECK(cuMemPoolTrimTo(pool, 0));
	check(reserved(pool) == 0, "reserved after a trim", reserved(pool));

	/* A trim does not affect used memory. */
	CHECK(cuMemAllocFromPoolAsync(&ptr, MIB, pool, stream));
	CHECK(cuMemsetD8Async(ptr, 5, MIB, stream));
	CHECK(cuMemPoolTrimTo(pool, 0));
	check(reserved(pool) >= MIB, "reserved while used", reserved(pool));
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
}

/* cuMemAllocAsync() uses the current pool; memory of a destroyed pool stays valid. */
static void current(CUdevice device, CUmemoryPool pool, CUstream stream)
{
	static unsigned char host[MIB];
	CUmemoryPool found, initial;
	CUdeviceptr ptr;

	CHECK(cuDeviceGetDefaultMemPool(&initial, device));
	CHECK(cuDeviceGetMemPool(&found, device));
	check(found == initial, "the current pool is not the default one", 0);
	CHECK(cuDeviceSetMemPool(device, pool));
	CHECK(cuDeviceGetMemPool(&found, device));
	check(found == pool, "the current pool is not the one that was set", 0);
	CHECK(cuMemAllocAsync(&ptr, MIB, stream));
	check(used(pool) >= MIB, "the current pool was not used", used(pool));
	CHECK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
	check(found == pool, "the pool of a pointer is another", 0);
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuDeviceGetMemPool(&found, device));
	check(found == initial, "the default pool is not current again", 0);
	CHECK(cuMemsetD8Async(ptr, 0x5a, MIB, stream));
	CHECK(cuMemcpyDtoHAsync(host, ptr, MIB, stream));
	CHECK(cuStreamSynchronize(stream));
	check(host[0] == 0x5a && host[MIB - 1] == 0x5a, "a destroyed pool's memory", host[0]);
	CHECK(cuMemFreeAsync(ptr, stream));
	CHECK(cuStreamSynchronize(stream));
}

/* A maximum size is rounded up to 32 MiB. */
static void limited(CUdevice device, CUstream stream)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.maxSize = MIB,
		.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS,
	};
	CUdeviceptr ptrs[4], more;
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &props));
	for (int i = 0; i < 4; i++)
		CHECK(cuMemAllocFromPoolAsync(&ptrs[i], 8 * MIB, pool, stream));
	expect(cuMemAllocFromPoolAsync(&more, MIB, pool, stream), CUDA_ERROR_OUT_OF_MEMORY,
		"an allocation above the greatest size", __LINE__);
	check(reserved(pool) == 32 * MIB, "reserved of the greatest size", reserved(pool));
	for (int i = 0; i < 4; i++)
		CHECK(cuMemFreeAsync(ptrs[i], stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemPoolDestroy(pool));
}

static void access_of(CUdevice device, CUmemoryPool pool)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CUmemAccessDesc access = {
		.location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

	CHECK(cuMemPoolGetAccess(&flags, pool, &location));
	check(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "a device's access to its pool", flags);
	CHECK(cuMemPoolSetAccess(pool, &access, 1));
}

static void refused(CUmemoryPool initial, CUmemoryPool pool, CUstream stream)
{
	uint64_t value = 1;
	CUdeviceptr ptr;

	REFUSE(cuMemPoolDestroy(initial));
	REFUSE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
	REFUSE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	REFUSE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
	REFUSE(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)999, &value));
	REFUSE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL));
	REFUSE(cuMemPoolCreate(NULL, NULL));
	CHECK(cuMemAllocFromPoolAsync(&ptr, 0, pool, stream));
	REFUSE(cuMemAllocAsync(NULL, 1, stream));
	expect(cuMemAllocFromPoolAsync(&ptr, (size_t)1 << 50, pool, stream),
		CUDA_ERROR_OUT_OF_MEMORY, "an allocation that cannot fit", __LINE__);
}

int main(void)
{
	CUmemoryPool initial, pool;
	CUcontext context;
	CUdevice device;
	CUstream stream;
	int has_pools = 0;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetAttribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
	check(has_pools, "the device has no pools", 0);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuDeviceGetDefaultMemPool(&initial, device));
	fresh(initial);
	threshold(initial, stream);
	pool = pool_make(device);
	check(pool != initial, "a new pool is the default one", 0);
	fresh(pool);
	threshold(pool, stream);
	access_of(device, pool);
	limited(device, stream);
	refused(initial, pool, stream);
	current(device, pool, stream);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
