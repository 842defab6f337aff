/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The GPUs that this process sees, and facts about them. Any thread.
 *
 * Invariant: the table is complete before cuInit() succeeds, and never changes
 * later. The fields that is_open covers are written once, before it is set.
 */

#include "device.h"

#include <stdatomic.h>
#include <string.h>

#include "context.h"
#include "hooks.h"
#include "lock.h"
#include "memory_limit.h"
#include "share.h"
#include "visible.h"
#include "client/util/log.h"
#include "client/transport/reconnect.h"
#include "client/transport/server_link.h"
#include "send_context.h"

/*
 * Attributes of features that are not supported: a program that asks must get "no".
 * Support for a feature removes its line here.
 */
static const uint8_t attributes_off[] = {
	CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
	CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
	CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
	CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
	CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
};

static struct lock devices_lock = LOCK_INIT(DEVICES);
static struct device devices[DEVICES_MAX];
static atomic_uint n_devices;

/* The facts were final before the client mapped the page, so plain loads are safe. */
static const struct page *facts_page(void)
{
	return shm_settled(server.page);
}

static CUresult make_primaries(const struct visible_gpu *chosen, unsigned n)
{
	share_init();
	uint64_t limits[DEVICES_MAX];

	memory_limits_parse(secure_getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), chosen, n, limits);
	for (unsigned i = 0; i < n; i++) {
		devices[i].index = chosen[i].index;
		devices[i].memory_limit = limits[i];
		devices[i].primary = context_new(&devices[i], (CUdevice)i, true);
		if (!devices[i].primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_store_explicit(&n_devices, n, memory_order_release);
	return CUDA_SUCCESS;
}

/* The GPUs that the program wants to see, in its order, with the server's numbers. */
static unsigned choose_visible(const struct page *page, struct visible_gpu ret_chosen[DEVICES_MAX])
{
	struct visible_gpu gpus[DEVICES_MAX];
	unsigned chosen[DEVICES_MAX], n;

	for (unsigned i = 0; i < page->n_devices; i++) {
		const struct device_facts *facts = &page->device[i];

		memcpy(gpus[i].uuid, facts->uuid, sizeof(gpus[i].uuid));
		memcpy(gpus[i].part_uuid, facts->uuid_v2, sizeof(gpus[i].part_uuid));
		gpus[i].pci[0] = facts->attribute[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID];
		gpus[i].pci[1] = facts->attribute[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID];
		gpus[i].pci[2] = facts->attribute[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
		gpus[i].index = i;
	}
	visible_order(secure_getenv("CUDA_DEVICE_ORDER"), gpus, page->n_devices);
	n = visible_parse(secure_getenv("CUDA_VISIBLE_DEVICES"), gpus, page->n_devices, chosen);
	for (unsigned i = 0; n != VISIBLE_TWICE && i < n; i++)
		ret_chosen[i] = gpus[chosen[i]];
	return n;
}

CUresult devices_init(void)
{
	const struct page *page = facts_page();
	struct visible_gpu chosen[DEVICES_MAX];
	CUresult result = (CUresult)page->init_result;
	unsigned n;

	if (result != CUDA_SUCCESS)
		return result;
	n = choose_visible(page, chosen);
	if (n == VISIBLE_TWICE)
		return CUDA_ERROR_INVALID_DEVICE;
	if (n == 0)
		return CUDA_ERROR_NO_DEVICE;
	lock_hold(&devices_lock);
	if (n_devices == 0)
		result = make_primaries(chosen, n);
	return result;
}

unsigned device_count(void)
{
	return atomic_load_explicit(&n_devices, memory_order_acquire);
}

struct device *device_get(CUdevice ordinal)
{
	return ordinal >= 0 && (unsigned)ordinal < device_count() ? &devices[ordinal] : NULL;
}

CUresult device_enter(CUdevice ordinal, struct device **ret_device)
{
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_device = device_get(ordinal);
	return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

const struct device_facts *device_facts(const struct device *device)
{
	return &facts_page()->device[device->index];
}

/* The server has already applied the operator's limits. */
uint64_t device_total_memory(const struct device *device)
{
	return MIN(device_facts(device)->total_memory, device->memory_limit);
}

const struct peer_facts *device_peer_facts(const struct device *device, const struct device *other)
{
	return &facts_page()->peer[device->index][other->index];
}

bool device_reaches_index(const struct device *device, uint32_t other)
{
	return device->index == other || facts_page()->peer[device->index][other].can_access;
}

bool device_reaches(const struct device *device, const struct device *other)
{
	return device_reaches_index(device, other->index);
}

CUresult device_attribute(const struct device *device, unsigned attribute, int *ret_value)
{
	const struct device_facts *facts = device_facts(device);

	if (attribute == 0 || attribute >= DEVICE_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (facts->attribute_result[attribute] != CUDA_SUCCESS)
		return (CUresult)facts->attribute_result[attribute];
	*ret_value = facts->attribute[attribute];
	for (size_t i = 0; i < sizeof(attributes_off); i++)
		if (attributes_off[i] == attribute)
			*ret_value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
		*ret_value = 1;
	if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
		*ret_value = (int)share_sms(device);
	if (attribute == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)
		*ret_value &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return CUDA_SUCCESS;
}

/* Logs why the server could not create its context: the compute mode, or another process. */
static void device_log_unavailable(const struct device *device)
{
	const struct device_facts *facts = device_facts(device);
	int mode = facts->attribute[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE];

	if (mode == CU_COMPUTEMODE_PROHIBITED)
		log_warn("GPU %s (%s) is in compute mode PROHIBITED, which allows no program to "
			 "use it: an administrator can change the mode (nvidia-smi -c DEFAULT)",
			facts->pci_bus_id, facts->name);
	else
		log_warn("GPU %s (%s) is not available to the MPS server: a process that is not a "
			 "client of the server has exclusive use of it (compute mode "
			 "EXCLUSIVE_PROCESS), or it is busy; see server.log",
			facts->pci_bus_id, facts->name);
}

CUresult device_open(struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	if (atomic_load_explicit(&device->is_open, memory_order_acquire))
		return server_link_check(&server);
	lock_hold(&devices_lock);
	if (!device->is_open)
		result = send_device_open(device->index, share_asked(), device->memory_limit,
			&device->n_sms, &device->heap, &device->heap_size, &device->granularity,
			&device->priority_least, &device->priority_greatest, device->limits);
	if (result == CUDA_ERROR_DEVICE_UNAVAILABLE)
		device_log_unavailable(device);
	if (result == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
		log_warn("the MPS service divides GPU %s into partitions of SMs, and "
			 "CUDA_MPS_SM_PARTITION does not name one of them: sm-partition list shows "
			 "them",
			device_facts(device)->pci_bus_id);
	if (result == CUDA_SUCCESS && !device->is_open) {
		reconnect_end(&server);
		hooks.open_device(device);
		atomic_store_explicit(&device->is_open, 1, memory_order_release);
	}
	return result;
}
