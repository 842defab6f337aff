/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocations of host memory that the program maps itself: where the attributes say that there
 * are any, the host and a kernel use them; elsewhere they are refused. A client is refused.
 */

#define NAME "host_allocations"
#include <string.h>

#include "../helpers/driver_program.h"

#define REFUSE(call) EXPECT(CUDA_ERROR_INVALID_VALUE, call)

static const CUmemAccess_flags both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

static CUmemAllocationProp prop_of(CUmemLocationType type)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

	prop.location.type = type;
	return prop;
}

/* Programs such as NCCL ask first, and go on without the memory, but not without an answer. */
static size_t granularity(CUmemLocationType type)
{
	const CUmemAllocationProp prop = prop_of(type);
	size_t size = 0;

	CHECK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	MUST(size > 0);
	return size;
}

static void set_access(CUdeviceptr memory, size_t size, CUmemLocationType type)
{
	CUmemAccessDesc access = {{type, 0}, both};

	CHECK(cuMemSetAccess(memory, size, &access, 1));
}

static void use(CUdeviceptr memory, size_t size)
{
	unsigned char byte;

	memset((void *)memory, 5, size);
	CHECK(cuMemcpyDtoH(&byte, memory + size - 1, 1));
	MUST(byte == 5);
	CHECK(cuMemsetD8(memory, 6, size));
	CHECK(cuCtxSynchronize());
	for (size_t i = 0; i < size; i++)
		MUST(((unsigned char *)memory)[i] == 6);
}

static void pointer(CUdeviceptr memory)
{
	unsigned type;
	void *host;

	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	MUST(type == CU_MEMORYTYPE_HOST);
	CHECK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
	MUST(host == (void *)memory);
}

static void served(CUmemLocationType type)
{
	CUmemAllocationProp prop = prop_of(type);
	CUmemLocation place = {type, 0};
	CUmemGenericAllocationHandle handle;
	size_t size = granularity(type);
	unsigned long long flags;
	CUdeviceptr memory;
	void *host;

	CHECK(cuMemCreate(&handle, size, &prop, 0));
	CHECK(cuMemAddressReserve(&memory, size, 0, 0, 0));
	CHECK(cuMemMap(memory, size, 0, handle, 0));
	set_access(memory, size, CU_MEM_LOCATION_TYPE_DEVICE);
	REFUSE(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
	set_access(memory, size, type);
	CHECK(cuMemGetAccess(&flags, &place, memory));
	MUST(flags == both);
	use(memory, size);
	pointer(memory);
	CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	MUST(prop.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && prop.location.id == 0);
	CHECK(cuMemUnmap(memory, size));
	CHECK(cuMemRelease(handle));
	CHECK(cuMemAddressFree(memory, size));
}

static void refused(CUmemLocationType type)
{
	const CUmemAllocationProp prop = prop_of(type);
	CUmemGenericAllocationHandle handle;

	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, granularity(type), &prop, 0));
}

/* What no driver makes. */
static void never(void)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_LOCATION_TYPE_HOST);
	size_t size = granularity(CU_MEM_LOCATION_TYPE_HOST);
	CUmemGenericAllocationHandle handle;

	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	REFUSE(cuMemCreate(&handle, size, &prop, 0));
	prop = prop_of(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
	REFUSE(cuMemCreate(&handle, size, &prop, 0));
}

static void as_said(CUdevice_attribute attribute, CUmemLocationType type)
{
	int is_served;

	CHECK(cuDeviceGetAttribute(&is_served, attribute, 0));
	if (is_served)
		served(type);
	else
		refused(type);
}

int main(void)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	as_said(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		CU_MEM_LOCATION_TYPE_HOST);
	as_said(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		CU_MEM_LOCATION_TYPE_HOST_NUMA);
	never();
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
