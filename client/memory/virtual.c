/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reserved addresses and the mappings in them. Any thread of the application.
 *
 * Invariant: a reservation is a piece of a region from the server. The map of
 * memory contains whole mappings, each within one reservation.
 */

#include "address_map.h"
#include "allocation.h"
#include "calls_memory.h"
#include "heap.h"
#include "layout.h"
#include "lock.h"
#include "memory.h"
#include "wire.h"
#include "client/transport/route.h"
#include "client/stream/stream.h"
#include "send_memory.h"

/* The alignment of addresses and sizes: the granularity of all supported GPUs. */
#define RESERVE_PAGE (2ull << 20)

static struct lock space_lock = LOCK_INIT(VIRTUAL);
static bool has_space;
static struct heap space;           /* the regions */
static struct address_map reserved; /* the reservations */

static bool is_aligned(uint64_t value)
{
	return value % RESERVE_PAGE == 0;
}

/* Under the lock. */
static struct piece *space_take(uint64_t size, uint64_t align, uint64_t wanted)
{
	struct piece *piece = NULL;

	if (!has_space)
		heap_init(&space);
	has_space = true;
	if (wanted && wanted % align == 0)
		piece = heap_take_at(&space, wanted, size);
	return piece ? piece : heap_take_aligned(&space, size, align);
}

/* Under the lock: gets another region from the server. */
static CUresult add_region(uint64_t size)
{
	uint64_t address, region_size;
	CUresult result;

	if (size > WIRE_RESERVE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_address_region(size, &address, &region_size);
	if (result != CUDA_SUCCESS || heap_add(&space, address, region_size) == 0)
		return result;
	(void)send_address_region_end(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Under the lock. Keeps one empty region for the next reservation. */
static void space_give(struct piece *piece)
{
	uint64_t address, size;

	heap_give(&space, piece, NULL, 0);
	while (space.n_empty > 1 && heap_release(&space, UINT64_MAX, &address, &size))
		(void)send_address_region_end(address);
}

static CUresult virtual_reserve(
	uint64_t size, uint64_t align, uint64_t wanted, CUdeviceptr *ret_address)
{
	struct memory_range range = {.size = size};
	CUresult result = CUDA_SUCCESS;

	lock_take(&space_lock);
	range.piece = space_take(size, align, wanted);
	if (!range.piece) {
		/* A region begins at a multiple of a VA window. */
		result = add_region(size + (align > VA_WINDOW ? align : 0));
		range.piece = result == CUDA_SUCCESS ? space_take(size, align, wanted) : NULL;
	}
	if (range.piece) {
		range.address = range.piece->address;
		if (address_map_add(&reserved, &range) < 0) {
			space_give(range.piece);
			range.piece = NULL;
		}
	}
	lock_release(&space_lock);
	if (!range.piece)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
	*ret_address = range.address;
	return CUDA_SUCCESS;
}

CUresult local_cuMemAddressReserve(
	CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	if (!ptr || flags != 0 || size == 0 || !is_aligned(size) || !is_aligned(addr) ||
		(alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (size > WIRE_RESERVE_MAX || alignment > WIRE_RESERVE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return virtual_reserve(size, MAX(alignment, RESERVE_PAGE), addr, ptr);
}

CUresult local_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	const struct memory_range *range;
	struct piece *piece = NULL;

	lock_hold(&space_lock);
	range = address_map_find(&reserved, ptr);
	if (range && range->address == ptr && range->size == size && !memory_overlaps(ptr, size))
		piece = range->piece;
	if (piece) {
		address_map_remove(&reserved, ptr);
		space_give(piece);
	}
	return piece ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Under the lock. */
static bool is_reserved(uint64_t address, uint64_t size)
{
	const struct memory_range *range = address_map_find(&reserved, address);

	return range && range_ok(address - range->address, size, range->size);
}

/* Under the lock. */
static CUresult virtual_map(struct allocation *allocation, uint64_t address, uint64_t size)
{
	struct memory_range range = {
		.address = address,
		.size = size,
		.allocation = allocation,
		.kind = MEMORY_MAPPED,
	};
	CUresult result;

	if (!is_reserved(address, size) || memory_overlaps(address, size) ||
		!allocation_ref(allocation))
		return CUDA_ERROR_INVALID_VALUE;
	result = send_allocation_map(allocation_id(allocation), address, size);
	if (result == CUDA_SUCCESS) {
		result = memory_add(&range);
		if (result != CUDA_SUCCESS)
			(void)send_allocation_unmap(address, size);
	}
	if (result != CUDA_SUCCESS)
		allocation_unref(allocation);
	return result;
}

CUresult local_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, struct allocation *allocation,
	unsigned long long flags)
{
	if (flags != 0 || size == 0 || !is_aligned(ptr | size | offset))
		return CUDA_ERROR_INVALID_VALUE;
	if (offset != 0 || (allocation->size > 0 && size < allocation->size))
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((allocation->size > 0 && size != allocation->size) || size > WIRE_RESERVE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	lock_hold(&space_lock);
	return virtual_map(allocation, ptr, size);
}

struct mapped {
	uint64_t owners; /* devices whose memory it is */
	uint64_t users;  /* devices that may access it */
	bool has_gaps;   /* addresses without a mapping */
};

/*
 * What is mapped in [address, address + size); the sets have one bit per device. false: there is a
 * part of a mapping, or other memory.
 */
static bool virtual_look(uint64_t address, uint64_t size, struct mapped *ret_mapped)
{
	uint64_t at = address, end = address + size;
	struct memory_range range;

	*ret_mapped = (struct mapped){0};
	if (end < address)
		return false;
	for (; memory_next(at, &range) && range.address < end; at = range.address + range.size) {
		if (range.kind != MEMORY_MAPPED || range.address < at ||
			range.size > end - range.address)
			return false;
		ret_mapped->owners |= 1ull << range.allocation->device;
		ret_mapped->users |= range.readers;
		ret_mapped->has_gaps |= range.address > at;
	}
	ret_mapped->has_gaps |= at < end;
	return true;
}

_Static_assert(DEVICES_MAX == 64, "a bit each");

/* For the work on this process's streams that may use it. */
static CUresult wait_devices(uint64_t devices)
{
	CUresult result = CUDA_SUCCESS;

	for (; devices && result == CUDA_SUCCESS; devices &= devices - 1)
		result = streams_wait_device((unsigned)__builtin_ctzll(devices));
	return result;
}

/* Under the lock: unmaps what is mapped there. */
static CUresult virtual_unmap(uint64_t address, uint64_t size)
{
	CUresult result = CUDA_SUCCESS;
	struct memory_range range;
	struct mapped mapped;

	if (!virtual_look(address, size, &mapped))
		return CUDA_ERROR_INVALID_VALUE;
	while (result == CUDA_SUCCESS && memory_next(address, &range) &&
		range.address < address + size) {
		result = send_allocation_unmap(range.address, range.size);
		if (result == CUDA_SUCCESS &&
			memory_remove(range.address, MEMORY_KIND(MEMORY_MAPPED), &range))
			allocation_unref(range.allocation);
	}
	return result;
}

CUresult local_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct mapped mapped;
	bool is_whole;
	CUresult result;

	lock_take(&space_lock);
	/* Only the first address has to be reserved, as in the driver. */
	is_whole = size > 0 && is_reserved(ptr, 1) && virtual_look(ptr, size, &mapped);
	lock_release(&space_lock);
	if (!is_whole)
		return CUDA_ERROR_INVALID_VALUE;
	result = wait_devices(mapped.owners | mapped.users);
	if (result != CUDA_SUCCESS)
		return result;
	lock_take(&space_lock);
	result = virtual_unmap(ptr, size);
	lock_release(&space_lock);
	return result;
}

/* The device exists, can access memory of the devices in `owners', and has a context. */
static CUresult virtual_check_access(const CUmemAccessDesc *desc, uint64_t owners)
{
	struct device *device;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		(desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
			desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
			desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
		return CUDA_ERROR_INVALID_VALUE;
	device = device_get(desc->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	for (; owners; owners &= owners - 1)
		if (!device_reaches_index(device, (uint32_t)__builtin_ctzll(owners)))
			return CUDA_ERROR_INVALID_DEVICE;
	return device_open(device);
}

CUresult local_cuMemSetAccess(
	CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = CUDA_SUCCESS;
	struct mapped mapped;

	lock_hold(&space_lock);
	if (size == 0 || !virtual_look(ptr, size, &mapped) || mapped.has_gaps)
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = virtual_check_access(&desc[i], mapped.owners);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		const struct device *device = device_get(desc[i].location.id);

		result = send_allocation_access(ptr, size, device->index, (uint32_t)desc[i].flags);
		if (result == CUDA_SUCCESS)
			memory_set_access(ptr, size, device->index, desc[i].flags);
	}
	return result;
}

CUresult local_cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	const struct device *device;
	struct memory_range range;

	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
		!memory_find(ptr, &range) || range.kind != MEMORY_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_get(location->id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = memory_get_access(&range, device->index);
	return CUDA_SUCCESS;
}

CUresult local_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct memory_range range;
	CUresult result = CUDA_SUCCESS;

	/* Under the lock neither a mapping nor its allocation can end. */
	lock_hold(&space_lock);
	if (handle && memory_find((uintptr_t)addr, &range) && range.kind == MEMORY_MAPPED)
		*handle = allocation_retain(range.allocation);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}
