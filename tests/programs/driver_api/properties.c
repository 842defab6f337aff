/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints what a program can ask about its first GPU, one `name value' on each line. A call that
 * fails has the value `error N'. tests/system/properties.py compares the lines of two runs.
 *
 * Runs: for a test of its own
 * Builds with: -Wno-deprecated-declarations
 */

#include <string.h>

#define NAME "properties"
#include "../helpers/attribute_names.h"
#include "../helpers/driver_program.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
	/* Later drivers have attributes without a name here. */
	DEVICE_ATTRIBUTES = 160,
};

static CUdevice device;

static void print(const char *group, const char *name, CUresult result, long long value)
{
	if (result == CUDA_SUCCESS)
		printf("%s.%s %lld\n", group, name, value);
	else
		printf("%s.%s error %d\n", group, name, result);
}

static void print_attributes(void)
{
	for (int i = 1; i < DEVICE_ATTRIBUTES; i++) {
		const char *name =
			i < (int)N_OF(device_attribute_names) ? device_attribute_names[i] : NULL;
		char number[16];
		int value = 0;
		CUresult result = cuDeviceGetAttribute(&value, i, device);

		if (!name && result == CUDA_ERROR_INVALID_VALUE)
			continue;
		snprintf(number, sizeof(number), "%d", i);
		print("attribute", name ? name : number, result, value);
	}
}

static void print_bytes(const char *name, CUresult result, const CUuuid *uuid)
{
	if (result != CUDA_SUCCESS) {
		printf("%s error %d\n", name, result);
		return;
	}
	printf("%s ", name);
	for (size_t i = 0; i < sizeof(uuid->bytes); i++)
		printf("%02x", (unsigned char)uuid->bytes[i]);
	printf("\n");
}

static void print_identity(void)
{
	char name[256] = "", bus[32] = "";
	CUresult result;
	CUuuid uuid;
	int version = 0, count = 0;

	result = cuDriverGetVersion(&version);
	print("driver", "version", result, version);
	result = cuDeviceGetCount(&count);
	print("device", "count", result, count);
	CHECK(cuDeviceGetName(name, sizeof(name), device));
	printf("device.name %s\n", name);
	CHECK(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
	printf("device.pci_bus_id %s\n", bus);
	result = cuDeviceGetUuid(&uuid, device);
	print_bytes("device.uuid", result, &uuid);
	result = cuDeviceGetUuid_v2(&uuid, device);
	print_bytes("device.uuid_v2", result, &uuid);
}

static void print_properties(void)
{
	CUdevprop found = {0};
	CUresult result = cuDeviceGetProperties(&found, device);

#define PROPERTY(name) print("properties", #name, result, found.name)
	PROPERTY(maxThreadsPerBlock);
	PROPERTY(maxThreadsDim[0]);
	PROPERTY(maxThreadsDim[1]);
	PROPERTY(maxThreadsDim[2]);
	PROPERTY(maxGridSize[0]);
	PROPERTY(maxGridSize[1]);
	PROPERTY(maxGridSize[2]);
	PROPERTY(sharedMemPerBlock);
	PROPERTY(totalConstantMemory);
	PROPERTY(SIMDWidth);
	PROPERTY(memPitch);
	PROPERTY(regsPerBlock);
	PROPERTY(clockRate);
	PROPERTY(textureAlign);
}

static void print_device(void)
{
	int major = 0, minor = 0, value = 0;
	CUdevResource resource = {0};
	size_t size = 0;
	CUresult result;

	result = cuDeviceComputeCapability(&major, &minor, device);
	print("device", "compute_capability", result, 10 * major + minor);
	result = cuDeviceTotalMem(&size, device);
	print("device", "total_memory", result, (long long)size);
	result = cuDeviceGetTexture1DLinearMaxWidth(&size, CU_AD_FORMAT_FLOAT, 4, device);
	print("device", "texture_1d_linear_width", result, (long long)size);
	result = cuDeviceGetExecAffinitySupport(&value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device);
	print("device", "exec_affinity_support", result, value);
	result = cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM);
	print("device", "sm_resource", result, resource.sm.smCount);
}

/* Peers: the only GPU that is always there is this one. */
static void print_peer(void)
{
	int value = 0;
	CUresult result = cuDeviceCanAccessPeer(&value, device, device);

	print("peer_itself", "can_access", result, value);
	for (size_t i = 0; i < N_OF(peer_attribute_names); i++) {
		if (!peer_attribute_names[i])
			continue;
		value = 0;
		result = cuDeviceGetP2PAttribute(&value, i, device, device);
		print("peer_itself", peer_attribute_names[i], result, value);
	}
}

static void print_granularity(void)
{
	CUmemAllocationProp wanted = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	size_t size = 0;
	CUresult result;

	result = cuMemGetAllocationGranularity(&size, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	print("memory", "granularity", result, (long long)size);
	result =
		cuMemGetAllocationGranularity(&size, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	print("memory", "granularity_recommended", result, (long long)size);
}

static void print_pool(void)
{
	CUmemoryPool pool = NULL;
	CUresult result = cuDeviceGetDefaultMemPool(&pool, device);

	if (result != CUDA_SUCCESS)
		print("pool", "default", result, 0);
	for (size_t i = 0; result == CUDA_SUCCESS && i < N_OF(pool_attribute_names); i++) {
		cuuint64_t value = 0;

		if (!pool_attribute_names[i])
			continue;
		/* Some attributes have 32 bits. */
		CUresult got = cuMemPoolGetAttribute(pool, i, &value);
		print("pool", pool_attribute_names[i], got, (long long)value);
	}
}

static void print_primary(const char *when)
{
	unsigned flags = 0;
	int is_active = 0;
	CUresult result = cuDevicePrimaryCtxGetState(device, &flags, &is_active);

	print(when, "flags", result, flags);
	print(when, "is_active", result, is_active);
}

static void print_context(const char *group, CUcontext context)
{
	CUexecAffinityParam affinity = {0};
	int least = 0, greatest = 0;
	unsigned value = 0;
	CUfunc_cache cache = 0;
	size_t size = 0, free = 0;
	CUresult result;

	result = cuCtxGetFlags(&value);
	print(group, "flags", result, value);
	result = cuCtxGetApiVersion(context, &value);
	print(group, "api_version", result, value);
	result = cuCtxGetCacheConfig(&cache);
	print(group, "cache_config", result, cache);
	result = cuCtxGetStreamPriorityRange(&least, &greatest);
	print(group, "priority_least", result, least);
	print(group, "priority_greatest", result, greatest);
	result = cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
	print(group, "affinity_sms", result, affinity.param.smCount.val);
	result = cuMemGetInfo(&free, &size);
	print(group, "memory_total", result, (long long)size);
	for (size_t i = 0; i < N_OF(limit_names); i++) {
		size = 0;
		result = cuCtxGetLimit(&size, i);
		print(group, limit_names[i], result, (long long)size);
	}
}

static void print_kernel(void)
{
	CUmodule module;
	CUfunction kernel;
	int blocks = 0;
	CUresult result;

	CHECK(cuModuleLoadData(&module, IMAGE_OF_NOTHING));
	CHECK(cuModuleGetFunction(&kernel, module, "nothing"));
	for (size_t i = 0; i < N_OF(function_attribute_names); i++) {
		int value = 0;

		result = cuFuncGetAttribute(&value, i, kernel);
		print("kernel", function_attribute_names[i], result, value);
	}
	result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0);
	print("kernel", "blocks_of_128", result, blocks);
	CHECK(cuModuleUnload(module));
}

int main(void)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	print_identity();
	print_device();
	print_attributes();
	print_properties();
	print_peer();
	print_granularity();
	print_pool();
	print_primary("primary_before");
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	print_primary("primary_after");
	print_context("primary", context);
	print_kernel();
	CHECK(cuCtxCreate(&context, NULL, 0, device));
	print_context("created", context);
	CHECK(cuCtxDestroy(context));
	printf(NAME ": ok\n");
	return 0;
}
