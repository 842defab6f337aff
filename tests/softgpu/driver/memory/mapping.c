/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: a reservation is address space without access, an
 * allocation has a backing (backing.h), a mapping puts an allocation into a reservation.
 *
 * Runs in any thread, under the driver's lock. An allocation lives while a handle or a
 * mapping refers to it, and so does its charge on a device that is this process's own;
 * its bytes live while any process has its descriptor.
 */

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backing.h"
#include "memory.h"

/* A page of the host. */
#define PAGE ((uint64_t)4096)
/* How long cuMemSetAccess takes with several GPUs. */
#define ACCESS_NS 200000

struct reservation {
	struct reservation *next;
	uint64_t start, size;
	bool is_of_hole;
};

struct allocation {
	struct object object; /* in the table while n_handles is not 0 */
	uint32_t refs;        /* handles and mappings */
	uint32_t n_handles;
	struct backing backing;
	CUmemAllocationProp prop;
};

static struct reservation *reservations;

/* Addresses that the driver itself has used and freed, which it gives out first. */
#define HOLE_BYTES (8ull << 30)
static uint64_t hole;

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static bool is_aligned(uint64_t value, uint64_t unit)
{
	return value % unit == 0;
}

static void *reserve_at(uint64_t address, size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	void *p = mmap(pointer(address), size, PROT_NONE, flags, -1, 0);

	if (p != MAP_FAILED && p != pointer(address)) {
		munmap(p, size); /* a kernel that does not know MAP_FIXED_NOREPLACE */
		return MAP_FAILED;
	}
	return p;
}

/* Turns mapped memory into address space without access; if that fails, into a hole. */
static void reserve_again(void *p, size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	if (mmap(p, size, PROT_NONE, flags, -1, 0) == MAP_FAILED)
		munmap(p, size);
}

static void *reserve_anywhere(size_t size, size_t alignment)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t start, aligned;
	void *p;

	if (size > SIZE_MAX - alignment)
		return MAP_FAILED;
	p = mmap(NULL, size + alignment, PROT_NONE, flags, -1, 0);
	if (p == MAP_FAILED)
		return p;
	start = (uint64_t)(uintptr_t)p;
	aligned = ALIGN_UP(start, alignment);
	if (aligned > start)
		munmap(p, aligned - start);
	if (start + alignment > aligned)
		munmap(pointer(aligned + size), start + alignment - aligned);
	return pointer(aligned);
}

void mapping_leave_hole(void)
{
	static bool is_left;

	if (!is_left)
		hole = HOLE_BYTES;
	is_left = true;
}

static CUresult reservation_new(void *p, size_t size, bool is_of_hole)
{
	struct reservation *reservation = calloc(1, sizeof(*reservation));

	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reservation->start = (uint64_t)(uintptr_t)p;
	reservation->size = size;
	reservation->is_of_hole = is_of_hole;
	hole -= is_of_hole ? size : 0;
	reservation->next = reservations;
	reservations = reservation;
	stat_add(STAT_RESERVATIONS, 1);
	stat_add(STAT_RESERVED_BYTES, (int64_t)size);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(
	CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	void *p = MAP_FAILED;
	bool is_of_hole;
	CUresult result;

	ENTER(CALL_INIT);
	if (!ptr || flags != 0 || size == 0 || !is_aligned(size, GRANULARITY))
		return CUDA_ERROR_INVALID_VALUE;
	if ((alignment & (alignment - 1)) || !is_aligned(addr, GRANULARITY))
		return CUDA_ERROR_INVALID_VALUE;
	alignment = MAX(alignment, GRANULARITY);
	/* Ignores the requested address, as the real driver does. */
	is_of_hole = size <= hole;
	if (addr != 0 && is_aligned(addr, alignment) && !is_of_hole)
		p = reserve_at(addr, size);
	if (p == MAP_FAILED)
		p = reserve_anywhere(size, alignment);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = reservation_new(p, size, is_of_hole);
	if (result != CUDA_SUCCESS) {
		munmap(p, size);
		return result;
	}
	*ptr = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct reservation **link = &reservations;
	struct reservation *reservation;

	ENTER(CALL_INIT);
	while (*link && (*link)->start != ptr)
		link = &(*link)->next;
	reservation = *link;
	if (!reservation || reservation->size != size || range_overlaps(ptr, ptr + size))
		return CUDA_ERROR_INVALID_VALUE;
	*link = reservation->next;
	munmap(pointer(ptr), size);
	hole += reservation->is_of_hole ? size : 0;
	free(reservation);
	stat_add(STAT_RESERVATIONS, -1);
	stat_add(STAT_RESERVED_BYTES, -(int64_t)size);
	return CUDA_SUCCESS;
}

static bool is_reserved(uint64_t start, size_t size)
{
	for (const struct reservation *r = reservations; r; r = r->next)
		if (start >= r->start && range_ok(start - r->start, size, r->size))
			return true;
	return false;
}

void allocation_unref(struct allocation *allocation)
{
	if (--allocation->refs > 0)
		return;
	backing_close(&allocation->backing);
	stat_add(STAT_ALLOCATIONS, -1);
	free(allocation);
}

bool allocation_is_rdma_capable(const struct allocation *allocation)
{
	return allocation->prop.allocFlags.gpuDirectRDMACapable;
}

unsigned allocation_handle_types(const struct allocation *allocation)
{
	return allocation->prop.requestedHandleTypes;
}

/* Adds a handle, which is also a reference. */
static CUmemGenericAllocationHandle allocation_handle(struct allocation *allocation)
{
	if (allocation->n_handles++ == 0)
		object_add(&allocation->object, OBJECT_ALLOCATION);
	return (CUmemGenericAllocationHandle)(uintptr_t)allocation;
}

static struct allocation *allocation_find(CUmemGenericAllocationHandle handle)
{
	return object_find(OBJECT_ALLOCATION, pointer(handle));
}

/* The location in `prop': a device, or NULL for the host. */
static CUresult prop_check(const CUmemAllocationProp *prop, struct device **ret_device)
{
	const unsigned types = prop->requestedHandleTypes;

	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData)
		return CUDA_ERROR_INVALID_VALUE;
	/* Bits that name no type are ignored, as in the real driver. */
	if (types & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT |
			    CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	switch (prop->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*ret_device = device_get(prop->location.id);
		return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		*ret_device = NULL;
		return types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_ERROR_INVALID_VALUE
									: CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		*ret_device = NULL;
		return prop->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Takes `backing', on failure too. */
static CUresult allocation_new(const struct backing *backing, const CUmemAllocationProp *prop,
	CUmemGenericAllocationHandle *handle)
{
	struct allocation *allocation = calloc(1, sizeof(*allocation));

	if (!allocation) {
		backing_close(backing);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->refs = 1;
	allocation->backing = *backing;
	allocation->prop = *prop;
	stat_add(STAT_ALLOCATIONS, 1);
	*handle = allocation_handle(allocation);
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct backing backing;
	struct device *device;
	CUresult result;

	ENTER(CALL_INIT);
	if (!handle || !prop || flags != 0 || size == 0 || !is_aligned(size, GRANULARITY))
		return CUDA_ERROR_INVALID_VALUE;
	result = prop_check(prop, &device);
	if (result == CUDA_SUCCESS)
		result = backing_new(device, size, prop, &backing);
	return result == CUDA_SUCCESS ? allocation_new(&backing, prop, handle) : result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct allocation *allocation;

	ENTER(CALL_INIT);
	allocation = allocation_find(handle);
	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	if (--allocation->n_handles == 0)
		object_remove(&allocation->object);
	allocation_unref(allocation);
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct range *range;

	ENTER(CALL_INIT);
	range = range_find((uint64_t)(uintptr_t)addr);
	if (!handle || !range || range->kind != RANGE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	range->allocation->refs++;
	*handle = allocation_handle(range->allocation);
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	const struct allocation *allocation;

	ENTER(CALL_INIT);
	allocation = allocation_find(handle);
	if (!prop || !allocation)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = allocation->prop;
	/* The host is a NUMA node then. */
	if (!allocation->backing.device)
		prop->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option)
{
	struct device *device;
	CUresult result;

	ENTER(CALL_INIT);
	if (!granularity || !prop ||
		(option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	result = prop_check(prop, &device);
	if (result == CUDA_SUCCESS)
		*granularity = GRANULARITY;
	return result;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	const struct allocation *allocation;
	int fd;

	ENTER(CALL_INIT);
	allocation = allocation_find(handle);
	if (!shareableHandle || !allocation || flags != 0 ||
		handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!(allocation->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	fd = backing_export(&allocation->backing);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(shareableHandle, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	struct backing backing;
	CUresult result;

	ENTER(CALL_INIT);
	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = backing_import((int)(intptr_t)osHandle, &prop, &backing);
	return result == CUDA_SUCCESS ? allocation_new(&backing, &prop, handle) : result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags)
{
	struct allocation *allocation;
	struct range range = {.start = ptr, .end = ptr + size, .kind = RANGE_MAPPED};
	struct range *added;
	void *p;

	ENTER(CALL_INIT);
	allocation = allocation_find(handle);
	if (allocation && (offset != 0 || size != allocation->backing.chunk.size))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!allocation || flags != 0 || !is_aligned(ptr | size, GRANULARITY) ||
		!is_reserved(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	range.device = allocation->backing.device;
	range.allocation = allocation;
	if (range_overlaps(range.start, range.end))
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(pointer(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
		allocation->backing.chunk.fd, (off_t)allocation->backing.chunk.offset);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (range_add(&range, &added) < 0) {
		reserve_again(p, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->refs++;
	stat_add(STAT_MAPPINGS, 1);
	stat_add(STAT_MAPPED_BYTES, (int64_t)size);
	return CUDA_SUCCESS;
}

void mapping_unmap(struct range *range)
{
	struct allocation *allocation = range->allocation;
	size_t size = range->end - range->start;
	void *p = pointer(range->start);

	range_remove(range->start);
	reserve_again(p, size);
	allocation_unref(allocation);
	stat_add(STAT_MAPPINGS, -1);
	stat_add(STAT_MAPPED_BYTES, -(int64_t)size);
}

/* Whether [ptr, ptr + size) consists of whole mappings without a gap. */
static bool is_mapped(uint64_t ptr, size_t size)
{
	uint64_t end;

	if (size == 0 || __builtin_add_overflow(ptr, size, &end))
		return false;
	while (ptr < end) {
		const struct range *range = range_find(ptr);

		if (!range || range->kind != RANGE_MAPPED || range->start != ptr ||
			range->end > end)
			return false;
		ptr = range->end;
	}
	return true;
}

/* Unmaps whole mappings; does nothing where nothing is mapped. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct range *range;

	ENTER(CALL_INIT);
	/* Only the first address has to be reserved, as in the real driver. */
	if (size == 0 || !is_reserved(ptr, 1) || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	for (range = range_next(ptr); range && range->start < ptr + size;
		range = range_next(range->end))
		if (range->kind != RANGE_MAPPED || range->start < ptr || range->end > ptr + size)
			return CUDA_ERROR_INVALID_VALUE;
	while ((range = range_next(ptr)) && range->start < ptr + size)
		mapping_unmap(range);
	return CUDA_SUCCESS;
}

static CUresult access_check(const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return desc->location.type == CU_MEM_LOCATION_TYPE_HOST ||
				       desc->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	return device_get(desc->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Access of the host to host memory is separate from the GPU's, but needs the pages. */
static CUresult access_set(struct range *range, const CUmemAccessDesc *desc)
{
	unsigned all = range->flags;
	unsigned shift = (unsigned)desc->location.id * ACCESS_BITS;
	int prot = PROT_NONE;

	if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		all &= ~(ACCESS_MASK << shift);
		all |= (unsigned)desc->flags << shift;
	} else if (range->device) {
		return CUDA_ERROR_INVALID_VALUE;
	} else {
		range->is_of_host = desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
	for (int i = 0; i < driver.n_devices; i++)
		prot |= (int)(all >> ((unsigned)i * ACCESS_BITS) & ACCESS_MASK);
	if (!range->device)
		prot = PROT_READ | PROT_WRITE;
	if (mprotect(pointer(range->start), range->end - range->start, prot) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range_set_access(range, all);
	return CUDA_SUCCESS;
}

/*
 * As in the real driver, two simultaneous calls conflict: for a moment, the second returns that the
 * access is already set. (In the real driver both need the same memory; then the first has no
 * effect.)
 */
static bool is_setting_access;

static void take_a_moment(void)
{
	is_setting_access = true;
	pthread_mutex_unlock(&driver.lock);
	nanosleep(&(struct timespec){.tv_nsec = ACCESS_NS}, NULL);
	pthread_mutex_lock(&driver.lock);
	is_setting_access = false;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result;

	ENTER(CALL_INIT);
	if (driver.n_devices > 1) {
		if (is_setting_access)
			return CUDA_ERROR_ALREADY_MAPPED;
		take_a_moment();
	}
	if (!desc || count == 0 || !is_mapped(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		result = access_check(&desc[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	for (uint64_t at = ptr; at < ptr + size; at = range_find(at)->end) {
		for (size_t i = 0; i < count; i++) {
			result = access_set(range_find(at), &desc[i]);
			if (result != CUDA_SUCCESS)
				return result;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	const struct range *range;

	ENTER(CALL_INIT);
	range = range_find(ptr);
	if (!flags || !location || !range || range->kind != RANGE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!range->device && (location->type == CU_MEM_LOCATION_TYPE_HOST ||
				      location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)) {
		*flags = range->is_of_host ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
		return CUDA_SUCCESS;
	}
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = range->flags >> ((unsigned)location->id * ACCESS_BITS) & ACCESS_MASK;
	return CUDA_SUCCESS;
}

/* The ranges that make up these pages, each of the same device; NULL: they are not all there. */
static const struct range *find_pages(uint64_t address, size_t size)
{
	const struct range *first = range_next(address);

	for (uint64_t at = address; at < address + size;) {
		const struct range *range = range_next(at);

		if (!range || range->start >= at + PAGE || range->device != first->device ||
			(range->kind != RANGE_DEVICE && range->kind != RANGE_MAPPED) ||
			(range != first && range->kind != RANGE_MAPPED))
			return NULL;
		at = ALIGN_UP(range->end, PAGE);
	}
	return first;
}

/*
 * A file in memory stands for a dma-buf: of an allocation, which it keeps alive, or of nothing.
 * Nothing but a test looks into it.
 */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType handleType, unsigned long long flags)
{
	const struct range *range;
	int fd;

	ENTER(CALL_CONTEXT);
	if (!handle || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || size == 0 ||
		!is_aligned(dptr | size, PAGE) || size > UINT64_MAX - dptr || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	range = find_pages(dptr, size);
	if (!range || !range->device)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	fd = range->allocation ? backing_export(&range->allocation->backing)
			       : memfd_create("softgpu-dmabuf", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(handle, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}
