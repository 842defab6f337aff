/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Regions, allocations and mappings. A worker.
 *
 * Invariant: the mappings of a region are in ascending order and do not overlap. A mapping
 * that the client has ended stays until the work queued earlier is done. Until then it is
 * closing, and the client may not use it.
 */

#include "virtual.h"

#include <string.h>

#include "async_close.h"
#include "mapping.h"
#include "space.h"
#include "wire.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/recv_fd.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/va_space.h"
#include "server/schedule/gate.h"
#include "do_memory.h"

static struct region *virtual_region_find(
	const struct session *session, uint64_t address, uint64_t size)
{
	struct region *region = session->regions;

	while (region && !range_ok(address - region->base, size, region->size))
		region = region->next;
	return region;
}

uint32_t mapping_at(const struct region *region, uint64_t address)
{
	uint32_t low = 0, high = region->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (region->mappings[middle].address + region->mappings[middle].size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool virtual_has(const struct session *session, uint64_t address, uint64_t size)
{
	const struct region *region = virtual_region_find(session, address, size);
	uint64_t end = address + size;

	if (!region || size == 0)
		return false;
	for (uint32_t i = mapping_at(region, address); address < end; i++) {
		const struct mapping *mapping = &region->mappings[i];

		if (i == region->n || mapping->address > address || mapping->is_closing ||
			mapping->readers == 0)
			return false;
		address = mapping->address + mapping->size;
	}
	return true;
}

const struct device *virtual_device(const struct session *session, uint64_t address)
{
	const struct region *region = virtual_region_find(session, address, 1);
	uint32_t i = region ? mapping_at(region, address) : 0;

	return region && i < region->n && region->mappings[i].address <= address
		       ? region->mappings[i].allocation->device
		       : NULL;
}

void virtual_set_exported(struct session *session, uint64_t address, uint64_t size)
{
	const struct region *region = virtual_region_find(session, address, size);

	for (uint32_t i = mapping_at(region, address);
		i < region->n && region->mappings[i].address < address + size; i++)
		region->mappings[i].allocation->is_exported = true;
}

void allocation_free(struct allocation *allocation, bool device_lost)
{
	if (!device_lost && !allocation->is_away)
		cuda.cuMemRelease(allocation->handle);
	host_store_give(&allocation->stored);
	if (allocation->is_away)
		device_quota_refund_away(allocation->memory, allocation->size);
	else if (allocation->is_exported)
		device_quota_keep(allocation->memory, allocation->size);
	else
		device_quota_refund(allocation->memory, allocation->size);
	device_quota_unref(allocation->memory);
	account_free(allocation);
}

static void allocation_unref(struct allocation *allocation, bool device_lost)
{
	if (--allocation->n_mappings == 0 && allocation->is_released)
		allocation_free(allocation, device_lost);
}

/* Removes the mapping from the region. The work that it waited for is done. */
static void mapping_end(
	struct session *session, struct region *region, uint32_t i, bool device_lost)
{
	struct mapping *mapping = &region->mappings[i];

	if (!device_lost && !mapping->allocation->is_away)
		va_space_unmap(mapping->address, mapping->size);
	fence_fini(&mapping->fence, device_lost);
	account_unkeep(region, KEPT_MAPPING);
	session->n_closing_mappings -= mapping->is_closing;
	allocation_unref(mapping->allocation, device_lost);
	memmove(mapping, mapping + 1, (--region->n - i) * sizeof(*mapping));
}

static void region_poll(struct session *session, struct region *region)
{
	for (uint32_t i = region->n; i-- > 0 && session->n_closing_mappings > 0;)
		if (region->mappings[i].is_closing && fence_is_passed(&region->mappings[i].fence))
			mapping_end(session, region, i, false);
}

/* Ends the closing mappings whose work is done. */
static void virtual_poll(struct session *session)
{
	for (struct region *region = session->regions; region && session->n_closing_mappings > 0;
		region = region->next)
		region_poll(session, region);
}

static void virtual_region_free(struct session *session, struct region *region, bool device_lost)
{
	while (region->n > 0)
		mapping_end(session, region, region->n - 1, device_lost);
	if (!device_lost)
		va_space_free(region->base, region->size);
	owner_give_back(region, region->va_window, region->n_va_windows);
	account_free(region->mappings);
	account_free(region);
}

/* Gives everything back; no work of the session is on a GPU. */
static void virtual_fini(struct session *session, bool device_lost)
{
	struct allocation *allocation;
	uint32_t at = 0;

	while (session->regions) {
		struct region *region = LIST_POP(session->regions);

		virtual_region_free(session, region, device_lost);
	}
	while ((allocation = handle_take(&session->allocations, &at)))
		allocation_free(allocation, device_lost);
}

/* Reserves the addresses; the driver must return exactly these. */
static CUresult region_reserve(struct session *session, struct region *region, uint32_t from)
{
	const struct owner owner = {session->id, OWNER_RESERVED};

	for (int i = 0; i < OWNER_TRIES; i++) {
		int va_window = owner_take(region, owner, from, region->n_va_windows);
		CUresult result;

		if (va_window < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		region->va_window = (uint32_t)va_window;
		region->base = owner_address(region->va_window);
		result = va_space_claim(region->base, region->size);
		if (result == CUDA_SUCCESS)
			return CUDA_SUCCESS;
		owner_give_back(region, region->va_window, region->n_va_windows);
		if (result_is_fault(result))
			return result;
		from = region->va_window + region->n_va_windows;
	}
	log_line("Found no addresses for %llu MiB in %d attempts",
		(unsigned long long)region->size >> 20, OWNER_TRIES);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult region_new(
	struct session *session, uint64_t size, uint32_t from, struct region **ret_region)
{
	uint64_t n_va_windows = ALIGN_UP(size, VA_WINDOW) >> VA_WINDOW_SHIFT;
	struct region *region = account_alloc(session->account, sizeof(*region), KEPT_RESERVATION);
	CUresult result;

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->n_va_windows = (uint32_t)n_va_windows;
	region->size = n_va_windows << VA_WINDOW_SHIFT;
	result = region_reserve(session, region, from);
	if (result != CUDA_SUCCESS) {
		account_free(region);
		return result;
	}
	LIST_PUSH(session->regions, region);
	*ret_region = region;
	return CUDA_SUCCESS;
}

CUresult do_address_region(
	struct session *session, uint64_t size, uint64_t *ret_address, uint64_t *ret_region_size)
{
	struct region *region;
	CUresult result = region_new(session, size, 0, &region);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_address = region->base;
	*ret_region_size = region->size;
	return CUDA_SUCCESS;
}

static bool has_closing(const struct region *region, uint64_t address, uint64_t size)
{
	for (uint32_t i = mapping_at(region, address);
		i < region->n && region->mappings[i].address < address + size; i++)
		if (region->mappings[i].is_closing)
			return true;
	return false;
}

/* Waits until no mapping in these addresses is closing, for a bounded time. */
static bool wait_for_closing(
	struct session *session, struct region *region, uint64_t address, uint64_t size)
{
	struct gate_wait wait = gate_wait(GATE_MAPPINGS, session);

	while (has_closing(region, address, size)) {
		region_poll(session, region);
		if (has_closing(region, address, size) && !gate_again(&wait))
			return false;
	}
	return true;
}

CUresult do_address_region_end(struct session *session, uint64_t address)
{
	struct region *region = virtual_region_find(session, address, 1);

	if (!region || region->base != address ||
		!wait_for_closing(session, region, region->base, region->size) || region->n > 0)
		return CUDA_ERROR_INVALID_VALUE;
	LIST_DROP(session->regions, region);
	virtual_region_free(session, region, false);
	return CUDA_SUCCESS;
}

/* Takes the handle, on failure too. */
static CUresult allocation_add(
	struct session *session, const struct allocation *said, CUmemGenericAllocationHandle handle)
{
	struct allocation *allocation;
	CUresult result = session_object_new(
		&session->allocations, said->id, sizeof(*allocation), KEPT_ALLOCATION, &allocation);

	if (result != CUDA_SUCCESS) {
		cuda.cuMemRelease(handle);
		return result;
	}
	*allocation = *said;
	allocation->handle = handle;
	allocation->memory = device_quota_ref(said->memory);
	return CUDA_SUCCESS;
}

/* The properties of a new allocation. Releases the handle on failure. */
static CUresult virtual_ask(CUmemGenericAllocationHandle handle, CUmemAllocationProp *ret_prop)
{
	CUresult result = cuda.cuMemGetAllocationPropertiesFromHandle(ret_prop, handle);

	if (result != CUDA_SUCCESS)
		cuda.cuMemRelease(handle);
	return result;
}

uint32_t allocation_properties(const CUmemAllocationProp *prop)
{
	uint32_t properties = 0;

	if (prop->allocFlags.compressionType)
		properties |= WIRE_ALLOCATION_COMPRESSED;
	if (prop->allocFlags.gpuDirectRDMACapable)
		properties |= WIRE_ALLOCATION_RDMA;
	return properties;
}

/* Charged to the session's quota. */
static CUresult virtual_create(struct session_device *sdev, uint64_t size,
	const CUmemAllocationProp *prop, CUmemGenericAllocationHandle *ret_handle)
{
	CUresult result;

	if (!device_quota_charge(sdev->memory, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuMemCreate(ret_handle, size, prop, 0);
	if (result != CUDA_SUCCESS)
		device_quota_refund(sdev->memory, size);
	return result;
}

/*
 * Another server gets the memory by a descriptor, whether or not the client may have one. Nobody
 * has measured whether the driver makes compressed memory that it can export.
 */
CUmemAllocationProp allocation_prop(
	const struct device *device, uint32_t properties, bool is_exportable)
{
	CUmemAllocationProp prop = device_memory(device);

	if (properties & WIRE_ALLOCATION_COMPRESSED && !is_exportable)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	if (properties & WIRE_ALLOCATION_COMPRESSED)
		prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	if (properties & WIRE_ALLOCATION_RDMA)
		prop.allocFlags.gpuDirectRDMACapable = 1;
	return prop;
}

CUresult do_allocation_create(struct session *session, uint32_t id, uint32_t device, uint64_t size,
	uint32_t is_exportable, uint32_t properties, uint32_t *ret_granted)
{
	struct allocation said = {.id = id, .size = size, .is_exportable = is_exportable};
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (size % sdev->device->granularity != 0)
		return CUDA_ERROR_INVALID_VALUE;
	said.device = sdev->device;
	said.memory = sdev->memory;
	said.prop = prop = allocation_prop(sdev->device, properties, is_exportable);
	result = virtual_create(sdev, size, &prop, &handle);
	for (unsigned i = 0;
		result == CUDA_ERROR_OUT_OF_MEMORY && space_make(session, sdev, size, i); i++)
		result = virtual_create(sdev, size, &prop, &handle);
	if (result != CUDA_SUCCESS)
		return result;
	if (properties)
		result = virtual_ask(handle, &prop);
	if (result == CUDA_SUCCESS)
		result = allocation_add(session, &said, handle);
	if (result != CUDA_SUCCESS)
		device_quota_refund(sdev->memory, size);
	else
		*ret_granted = allocation_properties(&prop);
	return result;
}

CUresult do_allocation_release(struct session *session, struct allocation *allocation)
{
	handle_remove(&session->allocations, allocation->id);
	allocation->is_released = true;
	if (allocation->n_mappings == 0)
		allocation_free(allocation, false);
	return CUDA_SUCCESS;
}

CUresult do_allocation_map(
	struct session *session, struct allocation *allocation, uint64_t address, uint64_t size)
{
	struct region *region = virtual_region_find(session, address, size);
	struct mapping *mapping;
	CUresult result;
	uint32_t i;

	if (!region || (allocation->size > 0 && size != allocation->size))
		return CUDA_ERROR_INVALID_VALUE;
	virtual_poll(session);
	if (!wait_for_closing(session, region, address, size))
		return CUDA_ERROR_NOT_READY;
	i = mapping_at(region, address);
	if (i < region->n && region->mappings[i].address < address + size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!account_grow_list(session->account, &region->mappings, region->n, &region->n_max,
		    sizeof(*mapping)) ||
		!account_keep(region, KEPT_MAPPING))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = va_space_map(address, size, allocation->handle);
	if (result != CUDA_SUCCESS) {
		account_unkeep(region, KEPT_MAPPING);
		return result;
	}
	mapping = &region->mappings[i];
	memmove(mapping + 1, mapping, (region->n++ - i) * sizeof(*mapping));
	*mapping = (struct mapping){.address = address, .size = size, .allocation = allocation};
	allocation->n_mappings++;
	return CUDA_SUCCESS;
}

/* The mappings that form exactly [address, address + size). False: they do not. */
static bool find_whole(const struct region *region, uint64_t address, uint64_t size,
	uint32_t *ret_first, uint32_t *ret_end)
{
	uint64_t end = address + size;
	uint32_t i = mapping_at(region, address);

	*ret_first = i;
	for (; i < region->n && address < end; i++) {
		if (region->mappings[i].address != address || region->mappings[i].is_closing)
			return false;
		address += region->mappings[i].size;
	}
	*ret_end = i;
	return address == end;
}

CUresult do_allocation_unmap(struct session *session, uint64_t address, uint64_t size)
{
	struct region *region = virtual_region_find(session, address, size);
	uint32_t first, end;
	CUresult result = CUDA_SUCCESS;

	if (!region || !find_whole(region, address, size, &first, &end))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = first; i < end && result == CUDA_SUCCESS; i++) {
		struct mapping *mapping = &region->mappings[i];

		result = fence_init(&mapping->fence, session);
		mapping->is_closing = result == CUDA_SUCCESS;
		session->n_closing_mappings += mapping->is_closing;
	}
	session->n_freed++;
	virtual_poll(session);
	return result;
}

CUresult do_allocation_access(
	struct session *session, uint64_t address, uint64_t size, uint32_t device, uint32_t flags)
{
	struct region *region = virtual_region_find(session, address, size);
	const struct device *gpu = device_get(device);
	uint32_t first, end;
	CUresult result = CUDA_SUCCESS;

	if (!region || !gpu || !find_whole(region, address, size, &first, &end))
		return CUDA_ERROR_INVALID_VALUE;
	session->n_freed += flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
	for (uint32_t i = first; i < end; i++) {
		struct mapping *mapping = &region->mappings[i];

		result = va_space_grant_access(
			mapping->address, mapping->size, gpu->handle, (CUmemAccess_flags)flags);
		if (result != CUDA_SUCCESS)
			break;
		mapping->readers &= ~(1ull << gpu->ordinal);
		mapping->writers &= ~(1ull << gpu->ordinal);
		if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			mapping->readers |= 1ull << gpu->ordinal;
		if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			mapping->writers |= 1ull << gpu->ordinal;
	}
	return result;
}

/* The descriptor is the driver's own, so its owner may send it to any process that it trusts. */
CUresult do_allocation_export(struct session *session, struct allocation *allocation)
{
	_cleanup_close_ int fd = -EBADF;
	CUresult result;

	if (!allocation->is_exportable)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuda.cuMemExportToShareableHandle(
		&fd, allocation->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (result != CUDA_SUCCESS)
		return result;
	allocation->is_exported = true;
	return session_send_memory(session, allocation->id, allocation->size, fd);
}

static CUresult virtual_import(int fd, CUmemGenericAllocationHandle *ret_handle,
	struct device **ret_device, uint32_t *ret_properties)
{
	CUmemAllocationProp prop = {0};
	CUresult result = cuda.cuMemImportFromShareableHandle(
		ret_handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (result != CUDA_SUCCESS)
		return result;
	result = virtual_ask(*ret_handle, &prop);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_properties = allocation_properties(&prop);
	*ret_device = NULL;
	for (uint32_t i = 0; i < devices_count(); i++)
		if (prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			device_get(i)->handle == prop.location.id)
			*ret_device = device_get(i);
	if (*ret_device)
		return CUDA_SUCCESS;
	cuda.cuMemRelease(*ret_handle);
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult do_allocation_import(
	struct session *session, uint32_t id, uint32_t *ret_device, uint32_t *ret_properties)
{
	CUmemGenericAllocationHandle handle;
	_cleanup_(async_closep) int fd = -EBADF;
	struct allocation said = {.id = id, .is_exportable = true};
	struct device *device;
	uint32_t properties;
	CUresult result;

	if (receive_memory(session, id, 0, true, &fd) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = virtual_import(fd, &handle, &device, &properties);
	(void)receive_end(session, result);
	if (result != CUDA_SUCCESS)
		return result;
	said.device = device;
	result = allocation_add(session, &said, handle);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_device = device->ordinal;
	*ret_properties = properties;
	return CUDA_SUCCESS;
}

static bool virtual_is_settled(const struct session *session)
{
	return session->n_closing_mappings == 0;
}

const struct session_part virtual_part = {
	.stays = virtual_stays,
	.pack = virtual_pack,
	.check = virtual_check,
	.unpack = virtual_unpack,
	.is_settled = virtual_is_settled,
	.poll = virtual_poll,
	.end = virtual_fini,
};
