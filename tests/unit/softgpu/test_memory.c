/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: memory of the device and of the host, copies, pointers, pools. */

#include <sys/mman.h>

#include "softgpu_child.h"

static void mapping_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle a, b, again;
	CUdeviceptr p, q;
	uint32_t words[4] = {1, 2, 3, 4}, back[4] = {0};
	size_t unit;
	int fd;

	context_open();
	OK(CU(cuMemGetAllocationGranularity)(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(unit == 2 * MIB);
	OK(CU(cuMemAddressReserve)(&p, 64 * unit, 0, WANTED, 0));
	CHECK(p == WANTED);
	OK(CU(cuMemAddressReserve)(&q, 64 * unit, 0, WANTED, 0));
	CHECK(q != WANTED && q % unit == 0);
	OK(CU(cuMemCreate)(&a, unit, &prop, 0));
	OK(CU(cuMemCreate)(&b, unit, &prop, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate)(&again, unit + 1, &prop, 0));
	OK(CU(cuMemMap)(p, unit, 0, a, 0));
	OK(CU(cuMemMap)(p + unit, unit, 0, b, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(p, unit, 0, b, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoD)(p, words, sizeof(words)));
	OK(CU(cuMemSetAccess)(p, 2 * unit, &access, 1));
	OK(CU(cuMemcpyDtoH)(back, p + unit - 8, sizeof(back)));
	CHECK(back[0] == 0 && back[3] == 0);
	OK(CU(cuMemcpyHtoD)(p + unit - 8, words, sizeof(words)));
	OK(CU(cuMemcpyDtoH)(back, p + unit - 8, sizeof(back)));
	CHECK(memcmp(words, back, sizeof(back)) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoD)(p + 2 * unit - 8, words, sizeof(words)));

	/* The bytes are in the descriptor, and at a second address, as long as one refers to them.
	 */
	OK(CU(cuMemExportToShareableHandle)(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(CU(cuMemUnmap)(p, 2 * unit));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyDtoH)(back, p, 4));
	OK(CU(cuMemRelease)(a));
	OK(CU(cuMemRelease)(b));
	OK(CU(cuMemImportFromShareableHandle)(
		&a, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	OK(CU(cuMemMap)(q, unit, 0, a, 0));
	OK(CU(cuMemSetAccess)(q, unit, &access, 1));
	OK(CU(cuMemcpyDtoH)(back, q + unit - 8, 8));
	CHECK(back[0] == 1 && back[1] == 2);
	OK(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)(q + 100)));
	CHECK(again == a);
	OK(CU(cuMemRelease)(again));
	OK(CU(cuMemRelease)(a));
	OK(CU(cuMemUnmap)(q, unit));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemAddressFree)(p, unit));
	OK(CU(cuMemAddressFree)(p, 64 * unit));
	OK(CU(cuMemAddressFree)(q, 64 * unit));
}
CHILD(mapping)

static void out_of_memory_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle, more;
	CUdeviceptr p;
	size_t left, total;

	context_open();
	OK(CU(cuMemGetInfo)(&left, &total));
	CHECK(left == 16 * MIB && total == 16 * MIB);
	OK(CU(cuMemCreate)(&handle, 12 * MIB, &prop, 0));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate)(&more, 6 * MIB, &prop, 0));
	OK(CU(cuMemAlloc)(&p, 4 * MIB));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc)(&p, 1));
	OK(CU(cuMemFree)(p));
	OK(CU(cuMemRelease)(handle));
	OK(CU(cuMemGetInfo)(&left, &total));
	CHECK(left == total);
}
CHILD(out_of_memory, "SOFTGPU_MEMORY_MIB=16")

static void copies_child(void)
{
	enum {
		W = 10,
		H = 5,
		PITCH = 64
	};
	CUDA_MEMCPY2D box = {0};
	CUdeviceptr a, b, base;
	uint8_t host[W * H], back[W * H];
	uint16_t shorts[8];
	size_t size;

	context_open();
	for (int i = 0; i < W * H; i++)
		host[i] = (uint8_t)i;
	OK(CU(cuMemAlloc)(&a, (size_t)PITCH * H));
	OK(CU(cuMemAlloc)(&b, 4096));
	CHECK(a % 512 == 0 && b % 512 == 0);
	OK(CU(cuMemGetAddressRange)(&base, &size, a + 17));
	CHECK(base == a && size == (size_t)PITCH * H);
	box.srcMemoryType = CU_MEMORYTYPE_HOST;
	box.srcHost = host;
	box.srcPitch = W;
	box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.dstDevice = a;
	box.dstPitch = PITCH;
	box.WidthInBytes = W;
	box.Height = H;
	OK(CU(cuMemcpy2D)(&box));
	OK(CU(cuMemcpyDtoD)(b, a + PITCH, W));
	OK(CU(cuMemcpyDtoH)(back, b, W));
	CHECK(memcmp(back, host + W, W) == 0);
	box = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = a,
		.srcPitch = PITCH,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = back,
		.dstPitch = W,
		.WidthInBytes = W,
		.Height = H};
	OK(CU(cuMemcpy2D)(&box));
	CHECK(memcmp(back, host, sizeof(host)) == 0);
	OK(CU(cuMemsetD16)(b, 0xabcd, 8));
	OK(CU(cuMemcpyDtoH)(shorts, b, sizeof(shorts)));
	CHECK(shorts[0] == 0xabcd && shorts[7] == 0xabcd);
	OK(CU(cuMemsetD8)(a, 7, W));
	OK(CU(cuMemcpy)((CUdeviceptr)(uintptr_t)back, a, W));
	CHECK(back[0] == 7 && back[W - 1] == 7);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoD)(a, host, (size_t)PITCH * H + 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyDtoH)(back, 0x1000, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemsetD32)(a + 1, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree)(a + 1));
	OK(CU(cuMemFree)(a));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree)(a));
}
CHILD(copies)

static void registration_child(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	CUdeviceptr p, device;
	unsigned type;
	char *host;

	context_open();
	host = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(host != MAP_FAILED);
	OK(CU(cuMemAlloc)(&p, 8 * page));
	EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CU(cuMemHostUnregister)(host));
	OK(CU(cuMemHostRegister)(host, 4 * page, CU_MEMHOSTREGISTER_DEVICEMAP));
	EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
		CU(cuMemHostRegister)(host + page, page, 0));
	OK(CU(cuMemHostRegister)(host + 4 * page, 4 * page, 0));
	OK(CU(cuMemHostGetDevicePointer)(&device, host + 5, 0));
	CHECK(device == (CUdeviceptr)(uintptr_t)host + 5);
	OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
	CHECK(type == CU_MEMORYTYPE_HOST);
	OK(CU(cuMemcpyHtoDAsync)(p, host, 4 * page, NULL));
	/* Two adjacent registrations are not one piece of memory. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoDAsync)(p, host + page, 4 * page, NULL));
	OK(CU(cuCtxSynchronize)()); /* its pages are about to be unmapped */
	OK(CU(cuMemHostUnregister)(host));
	OK(CU(cuMemHostUnregister)(host + 4 * page));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemHostGetDevicePointer)(&device, host, 0));
	munmap(host, 8 * page);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemHostRegister)(host, page, 0));
}
CHILD(registration)

static void pointers_child(void)
{
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED};
	unsigned type = 99;
	int ordinal = 99, local, is_managed = -1; /* the driver writes values as wide as an int */
	void *data[] = {&type, &ordinal, &is_managed};
	CUdeviceptr p, managed;
	CUcontext context = context_open(), owner;
	unsigned long long a, b;
	void *host;

	OK(CU(cuMemAlloc)(&p, 100));
	OK(CU(cuMemAllocManaged)(&managed, 100, CU_MEM_ATTACH_GLOBAL));
	OK(CU(cuMemHostAlloc)(&host, 100, 0));
	OK(CU(cuPointerGetAttributes)(3, asked, data, p + 3));
	CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && is_managed == 0);
	OK(CU(cuPointerGetAttributes)(3, asked, data, managed));
	CHECK(is_managed == 1);
	OK(CU(cuPointerGetAttributes)(3, asked, data, (CUdeviceptr)(uintptr_t)&local));
	CHECK(type == 0 && ordinal == -2 && !is_managed);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuPointerGetAttribute)(&type, asked[0], (CUdeviceptr)(uintptr_t)&local));
	OK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	CHECK(owner == context);
	OK(CU(cuPointerGetAttribute)(&a, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	OK(CU(cuPointerGetAttribute)(
		&b, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)host));
	CHECK(a != b);
	*(int *)(uintptr_t)managed = 5;
	OK(CU(cuMemsetD32)(managed, 6, 1));
	CHECK(*(int *)(uintptr_t)managed == 6);
	OK(CU(cuMemFree)(managed));
	OK(CU(cuMemFreeHost)(host));
}
CHILD(pointers)

static int told(CUmem_range_attribute attribute, CUdeviceptr p)
{
	int value = -77;

	OK(CU(cuMemRangeGetAttribute)(&value, sizeof(value), attribute, p, MIB));
	return value;
}

/* Parts of the host are locations for prefetch; a preferred part reads back as no preference. */
static void managed_child(void)
{
	const CUmemLocation first = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
			    none = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 1},
			    current = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 1};
	CUdeviceptr p;

	context_open();
	OK(CU(cuMemAllocManaged)(&p, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(CU(cuMemAdvise)(p, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, none));
	CHECK(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p) == 1);
	CHECK(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + MIB) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuMemAdvise)(p, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, first));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuMemAdvise)(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, none));
	OK(CU(cuMemAdvise)(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, first));
	OK(CU(cuMemAdvise)(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, current));
	CHECK(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, p) == CU_DEVICE_INVALID);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemPrefetchAsync)(p, MIB, none, 0, NULL));
	OK(CU(cuMemPrefetchAsync)(p, MIB, current, 0, NULL));
	CHECK(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, p) == (int)current.type);
	CHECK(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, p) == 1);
	OK(CU(cuMemFree)(p));
}
CHILD(managed)

/* A free in a stream takes effect when the stream reaches it; an allocation without room waits. */
static void pools_child(void)
{
	CUmemoryPool pool;
	CUdeviceptr p, q;
	CUstream stream;
	uint64_t *words, used;

	context_open();
	words = words_new(1);
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
	OK(CU(cuMemAllocAsync)(&p, 10 * MIB, stream));
	OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == 10 * MIB);
	OK(CU(cuStreamWaitValue64)(stream, device_of(words), 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(CU(cuMemFreeAsync)(p, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeAsync)(p, stream));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc)(&q, 10 * MIB));
	store(words, 1);
	OK(CU(cuMemAllocAsync)(&q, 10 * MIB, stream));
	OK(CU(cuMemFree)(q));
}
CHILD(pools, "SOFTGPU_MEMORY_MIB=16")

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapping),
		cmocka_unit_test(out_of_memory),
		cmocka_unit_test(copies),
		cmocka_unit_test(registration),
		cmocka_unit_test(pointers),
		cmocka_unit_test(managed),
		cmocka_unit_test(pools),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
