/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of streams: defaults, changes and queries, refused values, and copies of all
 * attributes.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "stream_attributes"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)
#define WINDOW CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
#define POLICY CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
#define PRIORITY CU_LAUNCH_ATTRIBUTE_PRIORITY
#define DOMAIN_MAP CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
#define DOMAIN CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s returned %d, not %d\n", line, what, (int)result, (int)wanted);
	exit(1);
}

static void check(int right, const char *what)
{
	if (right)
		return;
	printf(NAME ": %s\n", what);
	exit(1);
}

static void check_defaults(CUstream stream)
{
	CUstreamAttrValue value;
	int policy;

	memset(&value, 0xee, sizeof(value));
	CHECK(cuStreamGetAttribute(stream, WINDOW, &value));
	check(value.accessPolicyWindow.num_bytes == 0, "a window at first");
	CHECK(cuStreamGetAttribute(stream, POLICY, &value));
	memcpy(&policy, &value.syncPolicy, sizeof(policy));
	check(policy == -1, "a policy at first");
	CHECK(cuStreamGetAttribute(stream, DOMAIN_MAP, &value));
	check(value.memSyncDomainMap.default_ == 0 && value.memSyncDomainMap.remote == 1,
		"another map of domains at first");
	CHECK(cuStreamGetAttribute(stream, DOMAIN, &value));
	check(value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT, "a domain at first");
}

static void check_policies(CUstream stream)
{
	CUstreamAttrValue value = {0};

	for (int policy = 1; policy <= 4; policy++) {
		value.syncPolicy = (CUsynchronizationPolicy)policy;
		CHECK(cuStreamSetAttribute(stream, POLICY, &value));
		memset(&value, 0, sizeof(value));
		CHECK(cuStreamGetAttribute(stream, POLICY, &value));
		check((int)value.syncPolicy == policy, "another policy than was set");
	}
	value.syncPolicy = (CUsynchronizationPolicy)0;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, POLICY, &value));
	value.syncPolicy = (CUsynchronizationPolicy)5;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, POLICY, &value));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, (CUstreamAttrID)2, &value));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamGetAttribute(stream, (CUstreamAttrID)4, &value));
}

/* A value out of range becomes the nearest one; a stream with work changes it too. */
static void check_priority(CUstream stream, int prints_range)
{
	CUstreamAttrValue value = {0};
	int least, greatest, priority;
	CUdeviceptr memory;

	CHECK(cuMemAlloc(&memory, 4096));
	CHECK(cuMemsetD32Async(memory, 7, 1024, stream));
	CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
	if (prints_range)
		printf(NAME ": priorities %d to %d\n", least, greatest);
	for (int wanted = greatest - 3; wanted <= least + 3; wanted++) {
		int nearest = wanted < greatest ? greatest : wanted > least ? least : wanted;

		value.priority = wanted;
		CHECK(cuStreamSetAttribute(stream, PRIORITY, &value));
		CHECK(cuStreamGetPriority(stream, &priority));
		check(priority == nearest, "another priority than was set");
		CHECK(cuMemsetD32Async(memory, 7, 1024, stream));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemFree(memory));
}

static void check_copied_priority(CUstream stream, CUstream other)
{
	CUstreamAttrValue value = {0}, got;
	int least, greatest;

	CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
	value.priority = greatest;
	CHECK(cuStreamSetAttribute(stream, PRIORITY, &value));
	CHECK(cuStreamCopyAttributes(other, stream));
	CHECK(cuStreamGetAttribute(other, PRIORITY, &got));
	check(got.priority == greatest, "another priority than was copied");
}

static void check_window(CUstream stream, CUstream other)
{
	CUstreamAttrValue value = {0}, got;
	CUdeviceptr memory;

	CHECK(cuMemAlloc(&memory, 1 << 20));
	value.accessPolicyWindow.base_ptr = (void *)memory;
	value.accessPolicyWindow.num_bytes = 65536;
	value.accessPolicyWindow.hitRatio = 0.5f;
	value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
	value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
	CHECK(cuStreamSetAttribute(stream, WINDOW, &value));
	CHECK(cuStreamCopyAttributes(other, stream));
	CHECK(cuStreamGetAttribute(other, WINDOW, &got));
	check(got.accessPolicyWindow.base_ptr == (void *)memory &&
			got.accessPolicyWindow.num_bytes == 65536 &&
			got.accessPolicyWindow.hitProp == CU_ACCESS_PROPERTY_PERSISTING,
		"another window than was copied");
	value.accessPolicyWindow.num_bytes = (size_t)1 << 40;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, WINDOW, &value));
	value.accessPolicyWindow.num_bytes = 100;
	value.accessPolicyWindow.hitRatio = 2;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, WINDOW, &value));
	CHECK(cuMemFree(memory));
}

/* With an argument, it prints the range of priorities. */
int main(int argc, char **argv)
{
	CUstream stream, other, again;
	CUcontext context;
	CUdevice device;

	(void)argv;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	check_defaults(stream);
	check_policies(stream);
	check_priority(stream, argc > 1);
	check_copied_priority(stream, other);
	check_window(stream, other);
	CHECK(cuStreamDestroy(stream));
	/* A new stream in its place has the defaults. */
	CHECK(cuStreamCreate(&again, CU_STREAM_NON_BLOCKING));
	check_defaults(again);
	CHECK(cuStreamDestroy(again));
	CHECK(cuStreamDestroy(other));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
