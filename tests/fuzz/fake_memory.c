/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The memory of the counting driver: address space, allocations,
 * registrations, copies and fills.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_tables.h"

static uint64_t allocation_sizes[FAKE_RANGES_MAX];
static bool is_compressed[FAKE_RANGES_MAX];

static CUresult granularity(
	size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags flags)
{
	(void)prop;
	(void)flags;
	*bytes = GRANULARITY;
	return CUDA_SUCCESS;
}

static CUresult memory_info(size_t *n_free, size_t *total)
{
	BEGIN();
	*n_free = fake_switches.memory - used_memory;
	*total = FAKE_MEMORY;
	return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *ret, size_t size, size_t alignment, CUdeviceptr wanted,
	unsigned long long flags)
{
	BEGIN();
	(void)alignment;
	(void)flags;
	*ret = wanted == fake_switches.blocked ? DEVICE_SPACE_END - ALIGN_UP(size, VA_WINDOW)
					       : wanted;
	table_add(&reserved, *ret, size);
	fake_counts.reservations++;
	return CUDA_SUCCESS;
}

static CUresult unreserve(CUdeviceptr address, size_t size)
{
	BEGIN();
	must(table_remove(&reserved, address) == size, "half a reservation back");
	fake_counts.reservations--;
	return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	BEGIN();
	(void)flags;
	must(size % GRANULARITY == 0 && size > 0, "an allocation of an odd size");
	if (size > fake_switches.memory - used_memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < FAKE_RANGES_MAX; i++)
		if (!allocation_sizes[i]) {
			allocation_sizes[i] = size;
			is_compressed[i] =
				prop && prop->allocFlags.compressionType && !fake_switches.is_plain;
			used_memory += size;
			fake_counts.allocations++;
			*ret = i + 1;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult release_allocation(CUmemGenericAllocationHandle handle)
{
	BEGIN();
	must(handle > 0 && handle <= FAKE_RANGES_MAX && allocation_sizes[handle - 1],
		"an allocation that is not there");
	used_memory -= allocation_sizes[handle - 1];
	allocation_sizes[handle - 1] = 0;
	fake_counts.allocations--;
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	BEGIN();
	(void)flags;
	must(offset == 0 && handle > 0 && handle <= FAKE_RANGES_MAX && allocation_sizes[handle - 1],
		"an odd mapping");
	/* What another process says of the size of its memory may be wrong. */
	if (allocation_sizes[handle - 1] != size)
		return CUDA_ERROR_INVALID_VALUE;
	must_have(&reserved, address, size, "a mapping outside of a reservation");
	table_add(&mapped, address, size);
	fake_counts.mappings++;
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	BEGIN();
	must(!fake_switches.is_busy, "unmapping while its work runs");
	must(table_remove(&mapped, address) == size, "half a mapping back");
	fake_counts.mappings--;
	return CUDA_SUCCESS;
}

static CUresult set_access(
	CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	BEGIN();
	(void)desc;
	must(count == 1, "odd access");
	must_have(&mapped, address, size, "access to what is not mapped");
	fake_calls.accesses_set++;
	return CUDA_SUCCESS;
}

static CUresult export(void *ret_fd, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd = memfd_create("fake-allocation", MFD_CLOEXEC);

	BEGIN();
	(void)type;
	(void)flags;
	must(handle > 0 && handle <= FAKE_RANGES_MAX && allocation_sizes[handle - 1],
		"an allocation that is not there");
	must(fd >= 0 && ftruncate(fd, (off_t)allocation_sizes[handle - 1]) == 0, "no memfd");
	memcpy(ret_fd, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

/* Of memory that is mapped with access. */
static CUresult range_handle(void *ret_fd, CUdeviceptr address, size_t size,
	CUmemRangeHandleType type, unsigned long long flags)
{
	int fd = memfd_create("fake-range", MFD_CLOEXEC);

	BEGIN();
	must(type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && flags == 0, "an odd range handle");
	must_be_reached(address, size);
	must(fd >= 0, "no memfd");
	memcpy(ret_fd, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

static CUresult import(CUmemGenericAllocationHandle *ret, void *fd, CUmemAllocationHandleType type)
{
	struct stat st;

	(void)type;
	if (fstat((int)(intptr_t)fd, &st) < 0 || st.st_size <= 0 || st.st_size % GRANULARITY != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return create(ret, (size_t)st.st_size, NULL, 0);
}

static CUresult properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	BEGIN();
	must(handle > 0 && handle <= FAKE_RANGES_MAX && allocation_sizes[handle - 1],
		"an allocation that is not there");
	*prop = (CUmemAllocationProp){
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
		.allocFlags.compressionType = is_compressed[handle - 1],
	};
	return CUDA_SUCCESS;
}

static CUresult host_register(void *ptr, size_t size, unsigned flags)
{
	BEGIN();
	(void)flags;
	table_add(&registered, (uint64_t)(uintptr_t)ptr, size);
	fake_counts.registrations++;
	return CUDA_SUCCESS;
}

static CUresult host_unregister(void *ptr)
{
	BEGIN();
	must(!fake_switches.is_busy, "unpinning while its work runs");
	table_remove(&registered, (uint64_t)(uintptr_t)ptr);
	fake_counts.registrations--;
	return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *ret, CUpointer_attribute attribute, CUdeviceptr address)
{
	must(attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED && address != 0, "an attribute");
	*(unsigned *)ret = 0;
	return CUDA_SUCCESS;
}

static CUresult host_device_pointer(CUdeviceptr *ret, void *ptr, unsigned flags)
{
	(void)flags;
	*ret = (CUdeviceptr)(uintptr_t)ptr;
	return CUDA_SUCCESS;
}

/* Whether no other process can change it, as the client's memories. */
static bool is_private(uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end;
	char sharing = 's';

	must(maps != NULL, "no list of mappings");
	while (fscanf(maps, "%llx-%llx %*3c%c%*[^\n]\n", &start, &end, &sharing) == 3)
		if (address >= start && address < end)
			break;
	fclose(maps);
	return sharing == 'p' && address >= start && address < end;
}

/* Values of variables come from the server's own memory. */
static void note_copy(size_t size)
{
	fake_calls.copies++;
	fake_calls.queued += size;
	fake_calls.most_queued = MAX(fake_calls.most_queued, fake_calls.queued);
}

static CUresult copy_in(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	uint64_t address = (uint64_t)(uintptr_t)src, end;

	BEGIN();
	must(stream != NULL, "a copy on no stream");
	must_be_device(dst, size);
	if (table_has_byte(&registered, address, &end) || !is_private(address))
		must_be_pinned(address, size, "a copy of pageable memory");
	note_copy(size);
	return CUDA_SUCCESS;
}

/* The bytes of constants go there. */
static CUresult copy_out(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	uint64_t end;

	BEGIN();
	must(stream != NULL, "a copy on no stream");
	must_be_device(src, size);
	if (table_has_byte(&registered, (uint64_t)(uintptr_t)dst, &end) ||
		!is_private((uint64_t)(uintptr_t)dst))
		must_be_pinned((uint64_t)(uintptr_t)dst, size, "a copy to pageable memory");
	note_copy(size);
	return CUDA_SUCCESS;
}

static CUresult copy_device(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	BEGIN();
	must(stream != NULL, "a copy on no stream");
	must_be_reached(dst, size);
	must_be_reached(src, size);
	fake_calls.copies++;
	return CUDA_SUCCESS;
}

/* Only within pinned memory, for which batches are meant. */
static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
	CUmemcpyAttributes *attributes, size_t *first, size_t n_attributes, size_t *ret_failed,
	CUstream stream)
{
	BEGIN();
	must(stream != NULL, "copies on no stream");
	must(n > 0 && n_attributes == 1 && first[0] == 0 && ret_failed, "an odd batch");
	must(attributes->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, "an odd order");
	for (size_t i = 0; i < n; i++) {
		must(sizes[i] > 0, "a copy of nothing");
		must_be_pinned(dsts[i], sizes[i], "a batch to other memory");
		must_be_pinned(srcs[i], sizes[i], "a batch from other memory");
	}
	fake_calls.copies += n;
	return CUDA_SUCCESS;
}

/* One end of a box, from its first byte to its last. */
static void must_have_box(const CUDA_MEMCPY3D *copy, CUmemorytype type, uint64_t address,
	uint64_t pitch, uint64_t rows)
{
	uint64_t size = ((copy->Depth - 1) * rows + copy->Height - 1) * pitch + copy->WidthInBytes;

	must(pitch >= copy->WidthInBytes || copy->Height * copy->Depth == 1, "overlapping rows");
	must(rows >= copy->Height || copy->Depth == 1, "overlapping slices");
	if (type == CU_MEMORYTYPE_HOST)
		must_be_pinned(address, size, "a copy of pageable memory");
	else
		must_be_reached(address, size);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	BEGIN();
	must(stream != NULL, "a copy on no stream");
	must(copy->WidthInBytes && copy->Height && copy->Depth, "an empty box");
	if (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		must_have_box_in_array(copy->dstArray,
			(uint64_t[]){copy->dstXInBytes, copy->dstY, copy->dstZ},
			(uint64_t[]){copy->WidthInBytes, copy->Height, copy->Depth});
	else
		must_have_box(copy, copy->dstMemoryType,
			copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost
								  : copy->dstDevice,
			copy->dstPitch, copy->dstHeight);
	if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		must_have_box_in_array(copy->srcArray,
			(uint64_t[]){copy->srcXInBytes, copy->srcY, copy->srcZ},
			(uint64_t[]){copy->WidthInBytes, copy->Height, copy->Depth});
	else
		must_have_box(copy, copy->srcMemoryType,
			copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost
								  : copy->srcDevice,
			copy->srcPitch, copy->srcHeight);
	fake_calls.copies++;
	return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	const CUDA_MEMCPY3D whole = {
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstPitch = copy->dstPitch,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcPitch = copy->srcPitch,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = 1,
	};

	return copy_3d(&whole, stream);
}

static CUresult fill(uint64_t dst, uint64_t size, uint64_t width)
{
	BEGIN();
	must(dst % width == 0, "a fill out of line");
	must_be_reached(dst, size);
	fake_calls.fills++;
	return CUDA_SUCCESS;
}

static CUresult fill8(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, n, 1);
}

static CUresult fill16(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, n * 2, 2);
}

static CUresult fill32(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, n * 4, 4);
}

static CUresult fill2d8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
	size_t height, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, pitch * (height - 1) + width, 1);
}

static CUresult fill2d16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
	size_t height, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, pitch * (height - 1) + width * 2, 2);
}

static CUresult fill2d32(
	CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream)
{
	(void)value;
	(void)stream;
	return fill(dst, pitch * (height - 1) + width * 4, 4);
}

void fake_memory_start(void)
{
	cuda.cuMemGetAllocationGranularity = granularity;
	cuda.cuMemGetInfo_v2 = memory_info;
	cuda.cuMemAddressReserve = reserve;
	cuda.cuMemAddressFree = unreserve;
	cuda.cuMemCreate = create;
	cuda.cuMemRelease = release_allocation;
	cuda.cuMemMap = map;
	cuda.cuMemUnmap = unmap;
	cuda.cuMemSetAccess = set_access;
	cuda.cuMemExportToShareableHandle = export;
	cuda.cuMemGetHandleForAddressRange = range_handle;
	cuda.cuMemImportFromShareableHandle = import;
	cuda.cuMemGetAllocationPropertiesFromHandle = properties;
	cuda.cuMemHostRegister_v2 = host_register;
	cuda.cuMemHostUnregister = host_unregister;
	cuda.cuPointerGetAttribute = pointer_attribute;
	cuda.cuMemHostGetDevicePointer_v2 = host_device_pointer;
	cuda.cuMemcpyHtoDAsync_v2 = copy_in;
	cuda.cuMemcpyDtoHAsync_v2 = copy_out;
	cuda.cuMemcpyDtoDAsync_v2 = copy_device;
	cuda.cuMemcpyAsync = copy_device;
	cuda.cuMemcpyBatchAsync = copy_batch;
	cuda.cuMemcpy2DAsync_v2 = copy_2d;
	cuda.cuMemcpy3DAsync_v2 = copy_3d;
	cuda.cuMemsetD8Async = fill8;
	cuda.cuMemsetD16Async = fill16;
	cuda.cuMemsetD32Async = fill32;
	cuda.cuMemsetD2D8Async = fill2d8;
	cuda.cuMemsetD2D16Async = fill2d16;
	cuda.cuMemsetD2D32Async = fill2d32;
}
