/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocations and their handles. Any thread of the application.
 *
 * Invariant: the server is told of an allocation's end when neither a handle nor a
 * mapping of it exists.
 */

#include "allocation.h"

#include "calls_memory.h"
#include "fd_kind.h"
#include "frame.h"
#include "lock.h"
#include "memory.h"
#include "pool.h"
#include "wire.h"
#include "client/util/log.h"
#include "client/transport/reconnect.h"
#include "client/transport/route.h"
#include "send_memory.h"

static struct lock allocation_lock = LOCK_INIT(ALLOCATIONS);
static struct slab allocations = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct allocation),
	.n_max = WIRE_OBJECTS_MAX,
};

uint32_t allocation_id(const struct allocation *allocation)
{
	return slab_id(&allocations, allocation);
}

struct allocation *allocation_find(CUmemGenericAllocationHandle handle)
{
	struct allocation *allocation = slab_find(&allocations, (void *)(uintptr_t)handle);

	if (!allocation)
		return NULL;
	lock_hold(&allocation_lock);
	return allocation->n_handles > 0 ? allocation : NULL;
}

bool allocation_ref(struct allocation *allocation)
{
	bool is_held;

	lock_hold(&allocation_lock);
	is_held = allocation->n_handles > 0;
	allocation->n_mappings += is_held;
	return is_held;
}

/* Called under the lock, which it releases. */
static void end_if_unused(struct allocation *allocation)
{
	bool is_unused = allocation->n_handles == 0 && allocation->n_mappings == 0;

	lock_release(&allocation_lock);
	if (!is_unused)
		return;
	(void)send_allocation_release(allocation_id(allocation));
	slab_give(&allocations, allocation);
}

void allocation_unref(struct allocation *allocation)
{
	lock_take(&allocation_lock);
	allocation->n_mappings--;
	end_if_unused(allocation);
}

CUmemGenericAllocationHandle allocation_retain(struct allocation *allocation)
{
	lock_hold(&allocation_lock);
	allocation->n_handles++;
	return (uintptr_t)allocation;
}

CUresult local_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct allocation *allocation = slab_find(&allocations, (void *)(uintptr_t)handle);

	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&allocation_lock);
	if (allocation->n_handles == 0) {
		lock_release(&allocation_lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	allocation->n_handles--;
	end_if_unused(allocation);
	return CUDA_SUCCESS;
}

static bool is_of_host(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       (prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
		       prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
		       prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
}

/* NCCL asks for host memory first, and goes on without it. */
static CUresult refuse_host(const CUmemAllocationProp *prop, const char *symbol)
{
	CUmemLocationType type = prop->location.type;

	/* The driver does not make these either. */
	if (type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
		(type == CU_MEM_LOCATION_TYPE_HOST &&
			prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE))
		return CUDA_ERROR_INVALID_VALUE;
	log_info("%s: allocations of host memory are not supported", symbol);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Whether the GPU is one that the program does not see, as reported for an imported allocation. */
static bool is_unseen(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       prop->location.id == CU_DEVICE_INVALID;
}

/* Checks `prop' and opens its device. */
static CUresult check_prop(
	const CUmemAllocationProp *prop, const char *symbol, struct device **ret_device)
{
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_of_host(prop))
		return refuse_host(prop, symbol);
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = device_get(prop->location.id);
	if (!*ret_device)
		return CUDA_ERROR_INVALID_DEVICE;
	/*
	 * PyTorch and NCCL ask for it first and go on without it: only machines with NVLink
	 * domains have it.
	 */
	if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) {
		log_info("%s: fabric handles are not supported", symbol);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (prop->requestedHandleTypes & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
		return refuse(symbol, "allocations can be shared only by POSIX file descriptors");
	if (prop->allocFlags.usage)
		return refuse(symbol, "tile pools are not supported");
	if (prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	return device_open(*ret_device);
}

static struct allocation *allocation_new(
	uint32_t device, CUdevice ordinal, uint64_t size, CUmemAllocationHandleType types)
{
	struct allocation *allocation = slab_take(&allocations);

	if (!allocation)
		return NULL;
	allocation->device = device;
	allocation->ordinal = ordinal;
	allocation->size = size;
	allocation->types = types;
	return allocation;
}

static CUresult allocation_send_create(
	struct allocation *allocation, const CUmemAllocationProp *prop)
{
	uint32_t properties = 0;

	if (prop->allocFlags.compressionType)
		properties |= WIRE_ALLOCATION_COMPRESSED;
	if (prop->allocFlags.gpuDirectRDMACapable)
		properties |= WIRE_ALLOCATION_RDMA;
	return send_allocation_create(allocation_id(allocation), allocation->device,
		allocation->size,
		(prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
		properties, &allocation->properties);
}

CUresult local_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct allocation *allocation;
	struct device *device = NULL;
	CUresult result = check_prop(prop, "cuMemCreate", &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !device || flags != 0 || size == 0 || size % device->granularity != 0)
		return CUDA_ERROR_INVALID_VALUE;
	allocation =
		allocation_new(device->index, prop->location.id, size, prop->requestedHandleTypes);
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = allocation_send_create(allocation, prop);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && pools_make_space(device))
		result = allocation_send_create(allocation, prop);
	if (result != CUDA_SUCCESS) {
		slab_give(&allocations, allocation);
		return result;
	}
	*handle = allocation_retain(allocation);
	return CUDA_SUCCESS;
}

CUresult local_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option)
{
	struct device *device = NULL;
	CUresult result;

	/*
	 * A program that cannot get such memory later continues without it; after an error here,
	 * NCCL does not continue.
	 */
	if (is_of_host(prop) || is_unseen(prop)) {
		device = device_get(0);
		result = device ? device_open(device) : CUDA_ERROR_INVALID_DEVICE;
	} else {
		result = check_prop(prop, "cuMemGetAllocationGranularity", &device);
	}
	if (result != CUDA_SUCCESS)
		return result;
	if (!granularity || !device ||
		(option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = device->granularity;
	return CUDA_SUCCESS;
}

CUresult local_cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, struct allocation *allocation)
{
	const struct device *device = device_get(allocation->ordinal);
	bool is_seen = device && device->index == allocation->device;

	*prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = allocation->types,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE,
			is_seen ? allocation->ordinal : CU_DEVICE_INVALID},
		.allocFlags.compressionType =
			(allocation->properties & WIRE_ALLOCATION_COMPRESSED) != 0,
		.allocFlags.gpuDirectRDMACapable =
			(allocation->properties & WIRE_ALLOCATION_RDMA) != 0,
	};
	return CUDA_SUCCESS;
}

static CUresult allocation_export_fd(struct allocation *allocation, int *ret_fd)
{
	CUresult result;

	/* The answer to a process that has no space for its descriptor would be lost. */
	if (!descriptor_has_space())
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_hold(&server.reading);
	result = send_allocation_export(allocation_id(allocation));
	if (result == CUDA_SUCCESS && server_link_read_memory(&server, allocation_id(allocation),
					      allocation->size, ret_fd) < 0)
		result = CUDA_ERROR_MPS_RPC_FAILURE;
	return result;
}

CUresult local_cuMemExportToShareableHandle(void *shareableHandle, struct allocation *allocation,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	int fd = -EBADF;
	CUresult result = allocation_export_fd(allocation, &fd);

	if (result == CUDA_SUCCESS)
		*(int *)shareableHandle = fd;
	return result;
}

static CUresult allocation_import_fd(struct allocation *allocation, int fd, uint32_t *ret_index)
{
	const struct frame_memory frame = {
		.head = frame_head(FRAME_MEMORY, 1), .address = allocation_id(allocation)};
	CUresult result;

	lock_hold(&server.sending);
	result = reconnect_send_frame(&server, &frame, fd);
	if (result == CUDA_SUCCESS)
		result = send_allocation_import(
			allocation_id(allocation), ret_index, &allocation->properties);
	return result;
}

/*
 * The program's ordinal of a device. For a device that the program does not see:
 * the current context's.
 */
static CUdevice ordinal_of_index(uint32_t index)
{
	for (unsigned i = 0; i < device_count(); i++)
		if (device_get((CUdevice)i)->index == index)
			return (CUdevice)i;
	return context_current ? context_current->ordinal : 0;
}

CUresult local_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	int fd = (int)(intptr_t)osHandle;
	struct allocation *allocation;
	CUresult result;
	uint32_t index;

	/* The server would treat any other descriptor as an attack. */
	if (fd_kind(fd) == FD_OTHER)
		return CUDA_ERROR_UNKNOWN;
	allocation = allocation_new(0, 0, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = allocation_import_fd(allocation, fd, &index);
	if (result != CUDA_SUCCESS) {
		slab_give(&allocations, allocation);
		return result;
	}
	allocation->device = index;
	allocation->ordinal = ordinal_of_index(index);
	*handle = allocation_retain(allocation);
	return CUDA_SUCCESS;
}
