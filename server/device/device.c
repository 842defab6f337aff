/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The GPUs and their contexts. devices_init() on the thread that starts the driver;
 * device_enter() on workers.
 *
 * Invariant: a context that was made stays until devices_fini(), so a pointer to it needs no
 * reference count.
 */

#include "device.h"

#include <stdio.h>

#include "lock.h"
#include "server/util/gpu_processes.h"
#include "server/util/log.h"

static struct device devices[DEVICES_MAX];
static struct peer_facts peers[DEVICES_MAX][DEVICES_MAX];
static uint32_t n_devices;
static CUresult init_result;

/*
 * A fact that this driver or machine lacks stays zero, and clients see zero. A result that
 * another attempt may change is an error, because facts are kept as long as the server
 * lives.
 */
static bool is_shortage(CUresult result)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult read_attributes(struct device *device)
{
	struct device_facts *facts = &device->facts;

	for (uint32_t i = 0; i < DEVICE_ATTRIBUTES; i++) {
		int value = 0;
		CUresult result =
			cuda.cuDeviceGetAttribute(&value, (CUdevice_attribute)i, device->handle);

		if (is_shortage(result))
			return result;
		facts->attribute[i] = value;
		facts->attribute_result[i] = (uint16_t)result;
	}
	return CUDA_SUCCESS;
}

static CUresult read_names(struct device *device)
{
	struct device_facts *facts = &device->facts;
	const CUresult results[] = {
		cuda.cuDeviceGetName(facts->name, sizeof(facts->name) - 1, device->handle),
		cuda.cuDeviceGetUuid((CUuuid *)facts->uuid, device->handle),
		cuda.cuDeviceGetUuid_v2((CUuuid *)facts->uuid_v2, device->handle),
		cuda.cuDeviceGetPCIBusId(
			facts->pci_bus_id, sizeof(facts->pci_bus_id) - 1, device->handle),
	};

	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (is_shortage(results[i]))
			return results[i];
	return CUDA_SUCCESS;
}

static CUresult begin_parts(struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	for (const struct device_part *const *part = device_parts; *part && !is_shortage(result);
		part++)
		if ((*part)->begin)
			result = (*part)->begin(device);
	return is_shortage(result) ? result : CUDA_SUCCESS;
}

static CUresult read_facts(struct device *device)
{
	size_t total = 0;
	CUresult result = cuda.cuDeviceGet(&device->handle, (int)device->ordinal);

	if (result == CUDA_SUCCESS)
		result = read_names(device);
	if (result == CUDA_SUCCESS)
		result = read_attributes(device);
	if (result == CUDA_SUCCESS)
		result = cuda.cuDeviceTotalMem_v2(&total, device->handle);
	device->facts.total_memory = total;
	return result == CUDA_SUCCESS ? begin_parts(device) : result;
}

static CUresult read_peer(struct peer_facts *facts, CUdevice device, CUdevice other)
{
	int can_access = 0;
	CUresult result = cuda.cuDeviceCanAccessPeer(&can_access, device, other);

	for (int i = 1; i < (int)PEER_ATTRIBUTES && !is_shortage(result); i++) {
		int value = 0;

		result = cuda.cuDeviceGetP2PAttribute(
			&value, (CUdevice_P2PAttribute)i, device, other);
		facts->attribute[i] = value;
	}
	facts->can_access = can_access;
	return is_shortage(result) ? result : CUDA_SUCCESS;
}

static CUresult read_peers(void)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < n_devices; i++)
		for (uint32_t k = 0; k < n_devices && result == CUDA_SUCCESS; k++)
			if (i != k)
				result = read_peer(
					&peers[i][k], devices[i].handle, devices[k].handle);
	return result;
}

static CUresult device_init(void)
{
	CUresult result = cuda.cuInit(0);
	int count = 0;

	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuDeviceGetCount(&count);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint32_t i = 0; i < DEVICES_MAX && i < (uint32_t)count; i++) {
		devices[i] = (struct device){.ordinal = i};
		lock_init(&devices[i].lock, LOCK_DEVICE);
		lock_init(&devices[i].giving_back, LOCK_GIVING_BACK);
		result = read_facts(&devices[i]);
		if (result != CUDA_SUCCESS)
			return result;
		n_devices = i + 1;
	}
	return read_peers();
}

CUresult devices_init(void)
{
	init_result = device_init();
	return init_result;
}

static void close_parts(void)
{
	for (const struct device_part *const *part = device_parts; *part; part++)
		if ((*part)->close)
			(*part)->close();
}

void devices_fini(void)
{
	close_parts();
	for (uint32_t i = 0; i < n_devices; i++) {
		struct device *device = &devices[i];

		if (device->context) {
			log_line("Destroy server context on device %u (%s)", i, device->facts.name);
			cuda.cuDevicePrimaryCtxRelease_v2(device->handle);
		}
		device->context = NULL;
		lock_fini(&device->giving_back);
		lock_fini(&device->lock);
	}
	n_devices = 0;
}

uint32_t devices_count(void)
{
	return n_devices;
}

struct device *device_get(uint32_t ordinal)
{
	return ordinal < n_devices ? &devices[ordinal] : NULL;
}

void device_uuid_text(const struct device *device, char text[DEVICE_UUID_TEXT])
{
	const uint8_t *u = device->facts.uuid;

	snprintf(text, DEVICE_UUID_TEXT,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		u[14], u[15]);
}

void devices_fill_page(struct page __shm *page)
{
	shm_store32(&page->init_result, (uint32_t)init_result);
	shm_store32(&page->driver_version, (uint32_t)driver_version());
	shm_store32(&page->n_devices, n_devices);
	shm_store32(&page->page_bytes, sizeof(struct page));
	for (uint32_t i = 0; i < n_devices; i++)
		shm_copy_in(&page->device[i], &devices[i].facts, sizeof(devices[i].facts));
	for (uint32_t i = 0; i < n_devices; i++)
		shm_copy_in(&page->peer[i][0], peers[i], n_devices * sizeof(peers[i][0]));
}

bool device_reaches(const struct device *device, const struct device *other)
{
	return device == other || peers[device->ordinal][other->ordinal].can_access;
}

static const char *compute_mode_name(const struct device *device)
{
	switch (device->facts.attribute[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE]) {
	case CU_COMPUTEMODE_DEFAULT:
		return "default";
	case CU_COMPUTEMODE_PROHIBITED:
		return "prohibited";
	case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
		return "exclusive process";
	default:
		return "unknown";
	}
}

/* Logs a context that cannot be made, with the processes that may prevent it, for the operator. */
static void log_refused_context(const struct device *device, CUresult result)
{
	char users[512];

	gpu_processes_list(users, sizeof(users));
	log_line("Cannot create the server context on device %u (%s): %s (%d). Compute mode: %s. "
		 "Processes that have a GPU open: %s",
		device->ordinal, device->facts.name, result_name(result), (int)result,
		compute_mode_name(device), users);
}

/*
 * A feature that the server needs and the device lacks, besides a new enough driver. NULL:
 * it has all.
 */
static const char *find_lack(const struct device *device)
{
	static const struct {
		CUdevice_attribute attribute;
		const char *what;
	} needs[] = {
		{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing"},
		{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
			"virtual memory management"},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
			"64-bit stream memory operations"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(needs); i++)
		if (!device->facts.attribute[needs[i].attribute])
			return needs[i].what;
	return NULL;
}

CUresult device_memory_info(struct device *device, uint64_t *ret_free, uint64_t *ret_total)
{
	size_t n_free = 0, total = 0;
	uint64_t n_unused;
	CUresult result;

	lock_take(&device->giving_back);
	result = cuda.cuMemGetInfo_v2(&n_free, &total);
	n_unused = atomic_load(&device->unused);
	lock_release(&device->giving_back);
	if (result != CUDA_SUCCESS)
		return result;
	/* A concurrent allocation may be counted in neither. */
	*ret_free = MIN(n_free + n_unused, total);
	*ret_total = total;
	return CUDA_SUCCESS;
}

CUmemAllocationProp device_memory(const struct device *device)
{
	const int32_t *attribute = device->facts.attribute;

	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			attribute[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED]
				? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
				: CU_MEM_HANDLE_TYPE_NONE,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->handle},
	};
}

/* Only while no client has kernels on the GPU, for which this would wait. */
static void make_scratch(struct device *device)
{
	if (cuda.cuMemAlloc_v2(&device->scratch, sizeof(uint64_t[2])) != CUDA_SUCCESS)
		device->scratch = 0;
}

static CUresult open_parts(struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	for (const struct device_part *const *part = device_parts; *part && result == CUDA_SUCCESS;
		part++)
		if ((*part)->open)
			result = (*part)->open(device);
	return result;
}

/* With the new context current: reads what every session will see. */
static CUresult read_context_facts(struct device *device)
{
	CUmemAllocationProp prop = device_memory(device);
	size_t granularity = 0;
	CUresult result;

	for (unsigned i = 0; i < DEVICE_LIMITS; i++) {
		size_t value = 0;

		device->limits[i] =
			cuda.cuCtxGetLimit(&value, (CUlimit)i) == CUDA_SUCCESS ? value : UINT64_MAX;
	}
	result = cuda.cuCtxGetStreamPriorityRange(
		&device->priority_least, &device->priority_greatest);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuMemGetAllocationGranularity(
		&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	device->granularity = granularity;
	return result;
}

/*
 * Waits in the driver block instead of spin, because no thread of the server waits for a
 * short time.
 */
static CUresult make_context(struct device *device)
{
	const char *lack = find_lack(device);
	CUcontext context = NULL;
	CUresult result;

	if (lack) {
		log_line("Device %u (%s) has no %s, which this server needs", device->ordinal,
			device->facts.name, lack);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	log_line("Creating server context on device %u (%s)", device->ordinal, device->facts.name);
	cuda.cuDevicePrimaryCtxSetFlags_v2(device->handle, CU_CTX_SCHED_BLOCKING_SYNC);
	result = cuda.cuDevicePrimaryCtxRetain(&context, device->handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = read_context_facts(device);
	make_scratch(device);
	if (result == CUDA_SUCCESS)
		result = open_parts(device);
	if (result != CUDA_SUCCESS) {
		cuda.cuDevicePrimaryCtxRelease_v2(device->handle);
		return result;
	}
	device->context = context;
	return CUDA_SUCCESS;
}

CUresult device_enter(struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	lock_take(&device->lock);
	if (!device->context) {
		result = make_context(device);
		if (result != CUDA_SUCCESS)
			log_refused_context(device, result);
	}
	lock_release(&device->lock);
	return result == CUDA_SUCCESS ? cuda.cuCtxSetCurrent(device->context) : result;
}
