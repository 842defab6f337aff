/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_MEMORY_H
#define SYNC_MEMORY_H

/*
 * Memory of every kind for sync_matrix.c, SIZE bytes each. The program defines NAME before the
 * include.
 */

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_program.h"
#include "sync_calls.h"

static void *map(int fd)
{
	void *bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	MUST(bytes != MAP_FAILED);
	return bytes;
}

/* The descriptor stays open, because a client finds the file by it. */
static void *map_shared(void)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC);

	MUST(fd >= 0 && ftruncate(fd, SIZE) == 0);
	return map(fd);
}

/* For a client, private memory has no device pointer. */
static void memory_register(struct memory *memory)
{
	CHECK(cuMemHostRegister(memory->host, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(cuPointerGetAttribute(&memory->device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		(CUdeviceptr)(uintptr_t)memory->host));
}

static void memory_pin(struct memory *memory, unsigned flags)
{
	CHECK(cuMemHostAlloc(&memory->host, SIZE, flags));
	CHECK(cuMemHostGetDevicePointer(&memory->device, memory->host, 0));
}

/* None if the host may not read it while the GPU works. */
static void memory_manage(struct memory *memory, CUdevice device)
{
	int may_look;

	CHECK(cuDeviceGetAttribute(
		&may_look, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
	if (!may_look)
		return;
	CHECK(cuMemAllocManaged(&memory->device, SIZE, CU_MEM_ATTACH_GLOBAL));
	memory->host = (void *)(uintptr_t)memory->device;
}

static void memory_take(struct memory *memory)
{
	unsigned is_synced = memory->kind == SYNCED;

	CHECK(cuMemAlloc(&memory->device, SIZE));
	if (is_synced)
		CHECK(cuPointerSetAttribute(
			&is_synced, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory->device));
}

static void memory_take_from_pool(struct memory *memory)
{
	CHECK(cuMemAllocAsync(&memory->device, SIZE, CU_STREAM_LEGACY));
	CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
}

static void memory_map(struct memory *memory, CUdevice device)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemAccessDesc access = {
		.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t size;

	CHECK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size = (SIZE + size - 1) / size * size;
	CHECK(cuMemAddressReserve(&memory->device, size, 0, 0, 0));
	CHECK(cuMemCreate(&handle, size, &prop, 0));
	CHECK(cuMemMap(memory->device, size, 0, handle, 0));
	CHECK(cuMemSetAccess(memory->device, size, &access, 1));
	CHECK(cuMemRelease(handle));
}

static void memory_make_array(struct memory *memory)
{
	CUDA_ARRAY_DESCRIPTOR plane = {.Width = WIDTH,
		.Height = HEIGHT,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1};
	CUDA_ARRAY_DESCRIPTOR line = {
		.Width = SIZE / 16, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 4};

	CHECK(cuArrayCreate(&memory->array, memory->kind == LINE ? &line : &plane));
}

/* Memory of a second GPU; without one, there is none. */
static void memory_take_from_peer(struct memory *memory)
{
	CUcontext before, context;
	CUdevice device;
	int n;

	CHECK(cuDeviceGetCount(&n));
	if (n < 2)
		return;
	CHECK(cuCtxGetCurrent(&before));
	CHECK(cuDeviceGet(&device, 1));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory->device, SIZE));
	memory->context = context;
	CHECK(cuCtxSetCurrent(before));
	if (cuCtxEnablePeerAccess(context, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
		memory->device = 0;
}

static void memory_make(struct memory *memory, enum kind kind, CUcontext context, CUdevice device)
{
	*memory = (struct memory){.kind = kind, .context = context};
	switch (kind) {
	case PAGEABLE:
		memory->host = map(-1);
		break;
	case REGISTERED:
		memory->host = map(-1);
		memory_register(memory);
		break;
	case SHARED:
		memory->host = map_shared();
		memory_register(memory);
		break;
	case PINNED:
		memory_pin(memory, 0);
		break;
	case COMBINED:
		memory_pin(memory, CU_MEMHOSTALLOC_WRITECOMBINED);
		break;
	case MAPPED:
		memory_pin(memory, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
		break;
	case MANAGED:
		memory_manage(memory, device);
		break;
	case DEVICE:
	case SYNCED:
		memory_take(memory);
		break;
	case POOL:
		memory_take_from_pool(memory);
		break;
	case VIRTUAL:
		memory_map(memory, device);
		break;
	case PEER:
		memory_take_from_peer(memory);
		break;
	default:
		memory_make_array(memory);
		break;
	}
}

static bool memory_is_there(const struct memory *memory)
{
	return memory->host || memory->device || memory->array;
}

/* Copies between `bytes' and memory that the host cannot read; no stream is blocked then. */
static void memory_move(const struct memory *memory, void *bytes, bool is_in)
{
	CUDA_MEMCPY2D copy = {.WidthInBytes = WIDTH, .Height = HEIGHT};

	if (memory->kind == LINE) {
		CHECK(is_in ? cuMemcpyHtoA(memory->array, 0, bytes, SIZE)
			    : cuMemcpyAtoH(bytes, memory->array, 0, SIZE));
	} else if (memory->kind != ARRAY) {
		CHECK(is_in ? cuMemcpyHtoD(memory->device, bytes, SIZE)
			    : cuMemcpyDtoH(bytes, memory->device, SIZE));
	} else {
		copy.srcMemoryType = is_in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
		copy.dstMemoryType = is_in ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
		copy.srcArray = copy.dstArray = memory->array;
		copy.srcHost = copy.dstHost = bytes;
		copy.srcPitch = copy.dstPitch = WIDTH;
		CHECK(cuMemcpy2D(&copy));
	}
}

static void memory_put(const struct memory *memory, unsigned char value)
{
	static unsigned char bytes[SIZE];

	memset(memory->host ? memory->host : bytes, value, SIZE);
	if (!memory->host)
		memory_move(memory, bytes, true);
}

/* Whether all bytes have this value. */
static bool memory_has(const struct memory *memory, unsigned char value)
{
	static unsigned char copy[SIZE];
	const unsigned char *bytes = memory->host ? memory->host : copy;

	if (!memory->host)
		memory_move(memory, copy, false);
	return bytes[0] == value && memcmp(bytes, bytes + 1, SIZE - 1) == 0;
}

#endif
