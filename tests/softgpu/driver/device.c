/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices: their number, which of them are visible, their attributes. They
 * describe themselves as an H200, so that programs take the same paths as on
 * an H200.
 *
 * Runs in any thread, under the driver's lock. After cuInit() nothing here
 * changes except the memory charged and the claims.
 */

#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "sms.h"
#include "tests/softgpu/driver/memory/card.h"
#include "tests/softgpu/driver/stream/context.h"

#define UUID_TEXT_SIZE 41 /* "GPU-8-4-4-4-12" and its NUL */

struct attribute {
	int attribute;
	int value;
};

/* Measured on an H200, driver 580; device_attribute() has what differs between devices. */
static const struct attribute attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
	{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
	{CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
	{CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
	{CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
	{CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
	{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6016},
	{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768},
	{CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 0},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
	{CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0},
	{CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
	{CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 39321600},
	{CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134217728},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 9},
	{CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
	{CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
	{CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0},
	{CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
	{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
	{CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, 0},
	{CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, 0x233510de},
	{CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, 0x18bf10de},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
};

struct device *device_get(CUdevice dev)
{
	return dev >= 0 && dev < driver.n_devices ? &driver.devices[dev] : NULL;
}

void device_uuid(const struct device *device, CUuuid *ret_uuid)
{
	static const char base[16] = "SoftGPU\x80\x80\x01";

	memcpy(ret_uuid->bytes, base, sizeof(base));
	ret_uuid->bytes[15] = (char)device->ordinal;
}

static void device_uuid_text(const struct device *device, char text[UUID_TEXT_SIZE])
{
	CUuuid uuid;
	char *end = stpcpy(text, "GPU-");

	device_uuid(device, &uuid);
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*end++ = '-';
		end += sprintf(end, "%02x", (unsigned char)uuid.bytes[i]);
	}
}

/* The only device of `n' whose UUID begins so, or -1. */
static int device_of_uuid(const char *word, size_t len, int n)
{
	char text[UUID_TEXT_SIZE];
	int found = -1;

	for (int i = 0; i < n; i++) {
		device_uuid_text(&(struct device){.ordinal = i}, text);
		if (len >= sizeof(text) || strncasecmp(word, text, len) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* The device of `n' that an entry of CUDA_VISIBLE_DEVICES names, or -1. */
static int device_named(const char *word, size_t len, int n)
{
	unsigned long value;
	char *end;

	while (len > 0 && word[len - 1] == ' ')
		len--;
	if (len > 4 && strncmp(word, "GPU-", 4) == 0)
		return device_of_uuid(word, len, n);
	/* What follows the digits does not matter to the driver: "0x0" is 0. */
	value = strtoul(word, &end, 10);
	return end > word && value < (unsigned long)n ? (int)value : -1;
}

/* Fills driver.devices with ordinals. */
static CUresult devices_select(const char *visible, int n)
{
	for (;;) {
		size_t len = strcspn(visible, ",");
		int ordinal = device_named(visible, len, n);

		if (ordinal < 0)
			return CUDA_SUCCESS;
		for (int i = 0; i < driver.n_devices; i++)
			if (driver.devices[i].ordinal == ordinal)
				return CUDA_ERROR_INVALID_DEVICE;
		driver.devices[driver.n_devices++].ordinal = ordinal;
		if (!visible[len])
			return CUDA_SUCCESS;
		visible += len + 1;
	}
}

CUresult devices_init(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	CUresult result = CUDA_SUCCESS;
	int n = (int)MIN(env_number("SOFTGPU_DEVICES", 1), DEVICES_MAX);

	driver.n_devices = 0;
	driver.n_sms = (uint32_t)MIN(MAX(env_number("SOFTGPU_SMS", SMS_DEFAULT), 1), SMS_MAX);
	if (visible)
		result = devices_select(visible, n);
	else
		for (; driver.n_devices < n; driver.n_devices++)
			driver.devices[driver.n_devices].ordinal = driver.n_devices;
	if (result != CUDA_SUCCESS)
		return result;
	if (driver.n_devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	result = card_open();
	if (result != CUDA_SUCCESS)
		return result;
	for (int i = 0; i < driver.n_devices; i++) {
		driver.devices[i].total = env_number("SOFTGPU_MEMORY_MIB", 1024) << 20;
		driver.devices[i].lock_fd = -EBADF;
		driver.devices[i].primary = context_new(&driver.devices[i], true);
		if (!driver.devices[i].primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult device_charge(struct device *device, size_t size)
{
	CUresult result = CUDA_SUCCESS;

	if (card_is_shared())
		result = card_charge(device, size);
	else if (size > device->total - device->used)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		return result;
	device->used += size;
	stat_add(STAT_DEVICE_BYTES, (int64_t)size);
	return CUDA_SUCCESS;
}

void device_refund(struct device *device, size_t size)
{
	device->used -= size;
	if (card_is_shared())
		card_refund(device, size);
	stat_add(STAT_DEVICE_BYTES, -(int64_t)size);
}

static CUresult device_attribute(const struct device *device, CUdevice_attribute attrib, int *value)
{
	switch (attrib) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		*value = (int)device_compute_mode(device);
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = (int)driver.n_sms;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = device->ordinal + 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
		*value = device->ordinal;
		return CUDA_SUCCESS;
	default:
		break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (attributes[i].attribute != (int)attrib)
			continue;
		*value = attributes[i].value;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER(CALL_INIT);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	ENTER(CALL_INIT);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = driver.n_devices;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Software GPU");
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	device_uuid(device_get(dev), uuid);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid(uuid, dev);
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	ENTER(CALL_INIT);
	(void)luid;
	(void)deviceNodeMask;
	return device_get(dev) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = device_get(dev)->total;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return device_attribute(device_get(dev), attrib, pi);
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	static const struct {
		CUdevice_attribute attribute;
		size_t offset;
	} fields[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
			offsetof(CUdevprop, maxThreadsPerBlock)},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, offsetof(CUdevprop, maxThreadsDim[0])},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, offsetof(CUdevprop, maxThreadsDim[1])},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, offsetof(CUdevprop, maxThreadsDim[2])},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, offsetof(CUdevprop, maxGridSize[0])},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, offsetof(CUdevprop, maxGridSize[1])},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, offsetof(CUdevprop, maxGridSize[2])},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
			offsetof(CUdevprop, sharedMemPerBlock)},
		{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
			offsetof(CUdevprop, totalConstantMemory)},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, offsetof(CUdevprop, SIMDWidth)},
		{CU_DEVICE_ATTRIBUTE_MAX_PITCH, offsetof(CUdevprop, memPitch)},
		{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, offsetof(CUdevprop, regsPerBlock)},
		{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, offsetof(CUdevprop, clockRate)},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, offsetof(CUdevprop, textureAlign)},
	};

	ENTER(CALL_INIT);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		(void)device_attribute(device_get(dev), fields[i].attribute,
			(int *)((char *)prop + fields[i].offset));
	return CUDA_SUCCESS;
}

/* Contexts with fewer SMs than the device exist under MPS only. */
CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	ENTER(CALL_INIT);
	(void)type;
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	ENTER(CALL_CONTEXT);
	if (!pExecAffinity)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	pExecAffinity->type = type;
	pExecAffinity->param.smCount.val = driver.n_sms;
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	ENTER(CALL_INIT);
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	char text[16];

	ENTER(CALL_INIT);
	if (!pciBusId || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(text, sizeof(text), "0000:%02X:00.0",
		(unsigned)(device_get(dev)->ordinal + 1) & 0xff);
	if ((size_t)len <= strlen(text))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(pciBusId, text, strlen(text) + 1);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain = 0, bus, slot, function = 0;

	ENTER(CALL_INIT);
	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < driver.n_devices; i++) {
		if (domain || slot || function || bus != (unsigned)driver.devices[i].ordinal + 1)
			continue;
		*dev = i;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	ENTER(CALL_INIT);
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev) || !device_get(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
	ENTER(CALL_INIT);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(srcDevice) || !device_get(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
