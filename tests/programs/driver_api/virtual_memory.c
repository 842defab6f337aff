/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that a program maps: a vector that grows in place, as in allocators with
 * expandable segments, more addresses than the device has memory, mappings that end and
 * are made again elsewhere, handles without a mapping and mappings without a handle, an
 * allocation shared by its descriptor, a compressible one, and what is refused.
 */

#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "virtual_memory"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define REFUSE(call) expect((call), CUDA_ERROR_INVALID_VALUE, #call, __LINE__)

enum {
	CHUNKS = 8
};

static CUdevice device;
static size_t chunk;
static CUmemAllocationProp prop;
static CUmemAccessDesc access_all;

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

static void begin(void)
{
	size_t least, best;
	int is_served = 0;

	CHECK(cuDeviceGetAttribute(
		&is_served, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
	check(is_served, "the device has no virtual memory management", 0);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	access_all.location = prop.location;
	access_all.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(cuMemGetAllocationGranularity(&best, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	check(least > 0 && best >= least && best % least == 0, "granularity", least);
	chunk = best;
}

static CUmemGenericAllocationHandle create(size_t size)
{
	CUmemGenericAllocationHandle handle;

	CHECK(cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

/* Maps new memory there, which is freed with its mapping. */
static void map_new(CUdeviceptr at, size_t size)
{
	CUmemGenericAllocationHandle handle = create(size);

	CHECK(cuMemMap(at, size, 0, handle, 0));
	CHECK(cuMemSetAccess(at, size, &access_all, 1));
	CHECK(cuMemRelease(handle));
}

static void check_bytes(CUdeviceptr at, size_t size, unsigned char value, const char *what)
{
	unsigned char *host = malloc(size);

	CHECK(cuMemcpyDtoH(host, at, size));
	check(host[0] == value, what, host[0]);
	check(memcmp(host, host + 1, size - 1) == 0, what, size);
	free(host);
}

/* Earlier memory stays where it was, and one copy covers all of it. */
static void grow(CUstream stream)
{
	CUdeviceptr base;

	CHECK(cuMemAddressReserve(&base, 2 * chunk * CHUNKS, 0, 0, 0));
	for (size_t i = 0; i < CHUNKS; i++) {
		map_new(base + i * chunk, chunk);
		CHECK(cuMemsetD8Async(base + i * chunk, (unsigned char)(i + 1), chunk, stream));
	}
	CHECK(cuStreamSynchronize(stream));
	for (size_t i = 0; i < CHUNKS; i++)
		check_bytes(base + i * chunk, chunk, (unsigned char)(i + 1), "a chunk");
	CHECK(cuMemsetD8Async(base, 0x77, chunk * CHUNKS, stream));
	CHECK(cuStreamSynchronize(stream));
	check_bytes(base, chunk * CHUNKS, 0x77, "all chunks at once");
	/* The hole in the middle is filled again. */
	CHECK(cuMemUnmap(base + 2 * chunk, 2 * chunk));
	check_bytes(base, 2 * chunk, 0x77, "below the hole");
	check_bytes(base + 4 * chunk, 2 * chunk, 0x77, "above the hole");
	map_new(base + 2 * chunk, 2 * chunk);
	CHECK(cuMemsetD8(base + chunk, 0x11, 4 * chunk));
	check_bytes(base + chunk, 4 * chunk, 0x11, "over the hole");
	CHECK(cuMemUnmap(base, 2 * chunk));
	CHECK(cuMemUnmap(base + 2 * chunk, chunk * (CHUNKS - 2)));
	CHECK(cuMemAddressFree(base, 2 * chunk * CHUNKS));
}

/* The bytes belong to the allocation, not to the address of a mapping. */
static void move(CUstream stream)
{
	CUmemGenericAllocationHandle handle = create(2 * chunk), again;
	CUmemAllocationProp found;
	CUdeviceptr a, b;

	CHECK(cuMemAddressReserve(&a, 2 * chunk, 0, 0, 0));
	CHECK(cuMemAddressReserve(&b, 4 * chunk, 4 * chunk, 0, 0));
	check(b % (4 * chunk) == 0, "alignment", b);
	CHECK(cuMemMap(a, 2 * chunk, 0, handle, 0));
	CHECK(cuMemSetAccess(a, 2 * chunk, &access_all, 1));
	CHECK(cuMemsetD8Async(a, 0x42, 2 * chunk, stream));
	CHECK(cuStreamSynchronize(stream));
	/* Two mappings of one allocation at a time. */
	CHECK(cuMemMap(b + chunk, 2 * chunk, 0, handle, 0));
	CHECK(cuMemSetAccess(b + chunk, 2 * chunk, &access_all, 1));
	check_bytes(b + chunk, 2 * chunk, 0x42, "the other mapping");
	CHECK(cuMemUnmap(a, 2 * chunk));
	CHECK(cuMemRelease(handle));
	CHECK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(b + chunk)));
	CHECK(cuMemUnmap(b + chunk, 2 * chunk));
	CHECK(cuMemGetAllocationPropertiesFromHandle(&found, again));
	check(found.type == prop.type && found.allocFlags.compressionType == 0 &&
			found.location.type == prop.location.type && found.location.id == device &&
			found.requestedHandleTypes == prop.requestedHandleTypes,
		"properties", found.requestedHandleTypes);
	CHECK(cuMemMap(a, 2 * chunk, 0, again, 0));
	CHECK(cuMemSetAccess(a, 2 * chunk, &access_all, 1));
	check_bytes(a, 2 * chunk, 0x42, "mapped once more");
	CHECK(cuMemRelease(again));
	CHECK(cuMemUnmap(a, 2 * chunk));
	CHECK(cuMemAddressFree(a, 2 * chunk));
	CHECK(cuMemAddressFree(b, 4 * chunk));
}

/* Work that is queued behind a wait of the host when its memory is unmapped. */
static void unmap_after_work(CUstream stream)
{
	CUdeviceptr base;

	CHECK(cuMemAddressReserve(&base, chunk, 0, 0, 0));
	for (int i = 0; i < 8; i++) {
		map_new(base, chunk);
		for (int k = 0; k < 10; k++)
			CHECK(cuMemsetD8Async(base, (unsigned char)k, chunk, stream));
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuMemUnmap(base, chunk));
	}
	CHECK(cuMemAddressFree(base, chunk));
}

/* Addresses are free of charge: several times the device's memory. */
static void more_than_memory(void)
{
	size_t n_free, total, size;
	CUdeviceptr bases[3];

	CHECK(cuMemGetInfo(&n_free, &total));
	size = (total + chunk - 1) / chunk * chunk;
	for (int i = 0; i < 3; i++)
		CHECK(cuMemAddressReserve(&bases[i], size + size / 8 / chunk * chunk, 0, 0, 0));
	map_new(bases[1] + size, chunk);
	CHECK(cuMemsetD8(bases[1] + size, 0x33, chunk));
	check_bytes(bases[1] + size, chunk, 0x33, "the end of a large reservation");
	CHECK(cuMemUnmap(bases[1] + size, chunk));
	for (int i = 0; i < 3; i++)
		CHECK(cuMemAddressFree(bases[i], size + size / 8 / chunk * chunk));
}

/* A descriptor gives access to the same bytes, even after its creator has released them. */
static void descriptor(void)
{
	CUmemGenericAllocationHandle handle = create(chunk), imported;
	CUdeviceptr a, b;
	int fd = -1;

	CHECK(cuMemAddressReserve(&a, chunk, 0, 0, 0));
	CHECK(cuMemAddressReserve(&b, chunk, 0, 0, 0));
	CHECK(cuMemMap(a, chunk, 0, handle, 0));
	CHECK(cuMemSetAccess(a, chunk, &access_all, 1));
	CHECK(cuMemsetD8(a, 0x6b, chunk));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(cuMemUnmap(a, chunk));
	CHECK(cuMemRelease(handle));
	CHECK(cuMemImportFromShareableHandle(
		&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	CHECK(cuMemMap(b, chunk, 0, imported, 0));
	CHECK(cuMemSetAccess(b, chunk, &access_all, 1));
	check_bytes(b, chunk, 0x6b, "what came by a descriptor");
	CHECK(cuMemUnmap(b, chunk));
	CHECK(cuMemRelease(imported));
	CHECK(cuMemAddressFree(a, chunk));
	CHECK(cuMemAddressFree(b, chunk));
}

/* Descriptors that are no memory: an invalid one, and one of another file. */
static void other_descriptors(void)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	int odd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CUmemGenericAllocationHandle imported;

	expect(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)999, type),
		CUDA_ERROR_UNKNOWN, "a descriptor that is not open", __LINE__);
	expect(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)odd, type),
		CUDA_ERROR_UNKNOWN, "a descriptor of no memory", __LINE__);
	close(odd);
}

static void check_imported(CUmemGenericAllocationHandle handle, unsigned compression)
{
	CUmemGenericAllocationHandle imported;
	CUmemAllocationProp found;
	int fd = -1;

	CHECK(cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(cuMemImportFromShareableHandle(
		&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	CHECK(cuMemGetAllocationPropertiesFromHandle(&found, imported));
	check(found.allocFlags.compressionType == compression, "compression of what is imported",
		found.allocFlags.compressionType);
	CHECK(cuMemRelease(imported));
}

/* If the device supports it: as much as the driver grants and reports; the bytes are right. */
static void compressible(int is_granted)
{
	CUmemAllocationProp wanted = prop, found;
	CUmemGenericAllocationHandle handle;
	int is_supported = 0;
	CUdeviceptr at;
	size_t unit, size;

	CHECK(cuDeviceGetAttribute(
		&is_supported, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, device));
	check(is_supported || !is_granted, "compression is not supported", 0);
	if (!is_supported)
		return;
	wanted.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	if (!is_granted)
		wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	CHECK(cuMemGetAllocationGranularity(&unit, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	check(unit > 0, "granularity of what is compressed", unit);
	size = 2 * (unit > chunk ? unit : chunk);
	CHECK(cuMemCreate(&handle, size, &wanted, 0));
	CHECK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
	check(found.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC ||
			(!is_granted && found.allocFlags.compressionType == 0),
		"compression", found.allocFlags.compressionType);
	if (is_granted)
		check_imported(handle, found.allocFlags.compressionType);
	CHECK(cuMemAddressReserve(&at, size, 0, 0, 0));
	CHECK(cuMemMap(at, size, 0, handle, 0));
	CHECK(cuMemSetAccess(at, size, &access_all, 1));
	CHECK(cuMemsetD8(at, 0x5c, size));
	check_bytes(at, size, 0x5c, "what may be compressed");
	CHECK(cuMemUnmap(at, size));
	CHECK(cuMemAddressFree(at, size));
	CHECK(cuMemRelease(handle));
}

static void attributes(void)
{
	unsigned long long flags = 99;
	CUmemorytype type = 0;
	CUdeviceptr base, start;
	int ordinal = -1;

	CHECK(cuMemAddressReserve(&base, 2 * chunk, 0, 0, 0));
	map_new(base, chunk);
	CHECK(cuMemGetAccess(&flags, &prop.location, base));
	check(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "access", flags);
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + 5));
	check(type == CU_MEMORYTYPE_DEVICE, "type", type);
	CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base));
	check(ordinal == device, "ordinal", (unsigned)ordinal);
	CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, base + 5));
	check(start == base + 5, "device pointer", start);
	CHECK(cuMemUnmap(base, chunk));
	CHECK(cuMemAddressFree(base, 2 * chunk));
}

static void refused(void)
{
	CUmemGenericAllocationHandle handle = create(2 * chunk);
	CUmemAllocationProp odd = prop;
	CUdeviceptr base, other;

	CHECK(cuMemAddressReserve(&base, 4 * chunk, 0, 0, 0));
	REFUSE(cuMemAddressReserve(&other, chunk / 2, 0, 0, 0));
	REFUSE(cuMemAddressReserve(&other, 0, 0, 0, 0));
	REFUSE(cuMemAddressReserve(&other, chunk, 0, 0, 1));
	REFUSE(cuMemAddressFree(base, 2 * chunk));
	REFUSE(cuMemCreate(&handle, chunk / 2, &prop, 0));
	REFUSE(cuMemCreate(&handle, 0, &prop, 0));
	odd.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	REFUSE(cuMemCreate(&handle, chunk, &odd, 0));
	odd = prop;
	odd.location.id = 4711;
	expect(cuMemCreate(&handle, chunk, &odd, 0), CUDA_ERROR_INVALID_DEVICE, "no such device",
		__LINE__);
	expect(cuMemCreate(&handle, ((size_t)1 << 44), &prop, 0), CUDA_ERROR_OUT_OF_MEMORY,
		"an allocation that cannot fit", __LINE__);
	expect(cuMemMap(base, chunk, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED, "a part mapped",
		__LINE__);
	/* Where nothing is mapped, there is nothing to do; only the first address is checked. */
	CHECK(cuMemUnmap(base, 4 * chunk));
	CHECK(cuMemUnmap(base + chunk / 2, chunk));
	CHECK(cuMemUnmap(base + 3 * chunk, 2 * chunk));
	REFUSE(cuMemUnmap(base, 0));
	REFUSE(cuMemUnmap(0x600000000000, chunk));
	CHECK(cuMemMap(base, 2 * chunk, 0, handle, 0));
	REFUSE(cuMemMap(base + chunk, 2 * chunk, 0, handle, 0));
	REFUSE(cuMemUnmap(base, chunk));
	REFUSE(cuMemUnmap(base + chunk, 2 * chunk));
	REFUSE(cuMemSetAccess(base, 4 * chunk, &access_all, 1));
	REFUSE(cuMemAddressFree(base, 4 * chunk));
	CHECK(cuMemUnmap(base, 4 * chunk));
	CHECK(cuMemUnmap(base, 2 * chunk));
	CHECK(cuMemAddressFree(base, 4 * chunk));
	REFUSE(cuMemUnmap(base, 2 * chunk));
	REFUSE(cuMemAddressFree(base, 4 * chunk));
	CHECK(cuMemRelease(handle));
}

/* --compressed: the driver is known to grant it. */
int main(int argc, char **argv)
{
	CUcontext context;
	CUstream stream;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin();
	for (int round = 0; round < 2; round++) {
		grow(stream);
		move(stream);
		unmap_after_work(stream);
		more_than_memory();
		descriptor();
		other_descriptors();
		attributes();
	}
	compressible(argc > 1 && strcmp(argv[1], "--compressed") == 0);
	refused();
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
