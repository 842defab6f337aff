/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of ranges of managed memory with advice and prefetch on parts of them,
 * alone and in batches.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "managed_ranges"
#include "../helpers/driver_program.h"

/* A part; the driver keeps advice of pages no larger than this. */
#define PART ((size_t)2 << 20)

static int ask(CUmem_range_attribute attribute, CUdeviceptr address, size_t size)
{
	int value = -77;

	CHECK(cuMemRangeGetAttribute(&value, sizeof(value), attribute, address, size));
	return value;
}

static CUmemLocation gpu(int device)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static CUmemLocation host(void)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
}

static void nothing_said(CUdeviceptr memory)
{
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4 * PART) == 0,
		"nothing is read mostly");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, PART) == CU_DEVICE_INVALID,
		"no place is preferred");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, PART) ==
			CU_DEVICE_INVALID,
		"nothing was prefetched");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, PART) == CU_DEVICE_INVALID,
		"no device is reported as accessing it");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory, PART) ==
			CU_MEM_LOCATION_TYPE_INVALID,
		"no kind of place is preferred");
}

/* The second and third of four parts, then only the second. */
static void advised(CUdeviceptr memory, CUdevice device)
{
	int ids[3] = {5, 5, 5};

	CHECK(cuMemAdvise(memory + PART, 2 * PART, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu(device)));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + PART, 2 * PART) == 1,
		"two parts are read mostly");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 2 * PART) == 0, "not the first");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + 3 * PART, PART) == 0,
		"not the last");
	CHECK(cuMemAdvise(memory + 2 * PART, PART, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu(device)));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + PART, 2 * PART) == 0,
		"one of two no more");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + PART, PART) == 1, "one is still");

	CHECK(cuMemAdvise(memory, 2 * PART, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu(device)));
	CHECK(cuMemAdvise(memory + 2 * PART, PART, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host()));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 2 * PART) == device,
		"two parts prefer the GPU");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory + 2 * PART, PART) ==
			CU_DEVICE_CPU,
		"one prefers the host");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 3 * PART) ==
			CU_DEVICE_INVALID,
		"they do not agree");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory + 2 * PART, PART) ==
			CU_MEM_LOCATION_TYPE_HOST,
		"the host is a kind of place");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, memory, PART) == device,
		"the GPU has its number");
	CHECK(cuMemAdvise(memory, 3 * PART, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host()));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, PART) == CU_DEVICE_INVALID,
		"none is preferred any more");

	CHECK(cuMemAdvise(memory, 4 * PART, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu(device)));
	CHECK(cuMemRangeGetAttribute(
		ids, sizeof(ids), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 4 * PART));
	expect(ids[0] == device && ids[1] == CU_DEVICE_INVALID && ids[2] == CU_DEVICE_INVALID,
		"the GPU accesses all of it");
	CHECK(cuMemAdvise(memory, PART, CU_MEM_ADVISE_UNSET_ACCESSED_BY, gpu(device)));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 2 * PART) == CU_DEVICE_INVALID,
		"and then not all");
}

static void prefetched(CUdeviceptr memory, CUdevice device, CUstream stream)
{
	CUdeviceptr parts[4] = {memory, memory + PART, memory + 2 * PART, memory + 3 * PART};
	size_t sizes[4] = {PART, PART, PART, PART}, first[2] = {0, 2};
	CUmemLocation places[2] = {gpu(device), host()};
	CUmem_range_attribute attributes[2] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE};
	int values[2] = {0};
	void *data[2] = {&values[0], &values[1]};
	size_t data_sizes[2] = {sizeof(int), sizeof(int)};

	CHECK(cuMemPrefetchAsync(memory, PART, gpu(device), 0, stream));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, PART) == device,
		"it was prefetched");
	CHECK(cuMemPrefetchBatchAsync(parts, sizes, 4, places, first, 2, 0, stream));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 2 * PART) == device,
		"the first half was prefetched to the GPU");
	CHECK(cuMemRangeGetAttributes(
		data, data_sizes, attributes, 2, memory + 2 * PART, 2 * PART));
	expect(values[0] == CU_DEVICE_CPU && values[1] == CU_MEM_LOCATION_TYPE_HOST,
		"the second half was prefetched to the host");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 4 * PART) ==
			CU_DEVICE_INVALID,
		"they were not prefetched to one place");
	CHECK(cuStreamSynchronize(stream));
}

/* Discarded memory can be written again. */
static void discarded(CUdeviceptr memory, CUdevice device, CUstream stream)
{
	size_t size = PART, zero = 0;
	CUmemLocation place = gpu(device);
	unsigned *words = (unsigned *)(uintptr_t)memory;

	words[PART / 4] = 9; /* beside it */
	CHECK(cuMemDiscardBatchAsync(&memory, &size, 1, 0, stream));
	CHECK(cuMemsetD32Async(memory, 7, PART / 4, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(words[0] == 7 && words[PART / 4 - 1] == 7 && words[PART / 4] == 9,
		"it can be written anew");
	CHECK(cuMemDiscardAndPrefetchBatchAsync(&memory, &size, 1, &place, &zero, 1, 0, stream));
	CHECK(cuMemsetD32Async(memory, 8, PART / 4, stream));
	CHECK(cuStreamSynchronize(stream));
	expect(words[0] == 8 && words[PART / 4 - 1] == 8, "with a prefetch too");
}

/* A part of the host's memory is a location for prefetch; preferring it sets no preference. */
static void part_of_host(CUdeviceptr memory, CUstream stream, CUmemLocationType type, int id)
{
	CUmemLocation node = {.type = type, .id = id};

	expect(cuMemAdvise(memory, PART, CU_MEM_ADVISE_SET_ACCESSED_BY, node) ==
			CUDA_ERROR_INVALID_VALUE,
		"memory of the host accesses nothing");
	expect(cuMemAdvise(memory, PART, CU_MEM_ADVISE_UNSET_ACCESSED_BY, node) ==
			CUDA_ERROR_INVALID_VALUE,
		"nor does it stop");
	CHECK(cuMemAdvise(memory, PART, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory, PART) ==
			CU_MEM_LOCATION_TYPE_INVALID,
		"what prefers a part of it prefers no kind of place");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, memory, PART) == CU_DEVICE_INVALID,
		"which has no number");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, PART) == CU_DEVICE_INVALID,
		"and is none");
	CHECK(cuMemPrefetchAsync(memory, PART, node, 0, stream));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, memory, PART) == (int)type,
		"it was prefetched to a part of the host's memory");
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, memory, PART) == id,
		"to the one that was named");
}

static void parts_of_host(CUdeviceptr memory, CUstream stream)
{
	CUmemLocation none = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = -1};

	part_of_host(memory, stream, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
	expect(cuMemAdvise(memory, PART, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, none) ==
			CUDA_ERROR_INVALID_VALUE,
		"no part is preferred that is not there");
	expect(cuMemPrefetchAsync(memory, PART, none, 0, stream) == CUDA_ERROR_INVALID_VALUE,
		"nor prefetched to");
	/* The thread's location needs no number: every number is accepted. */
	for (int id = -1; id < 2; id++)
		part_of_host(memory, stream, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, id);
}

static void errors(CUdeviceptr memory, CUdeviceptr plain, CUstream stream)
{
	CUmemLocation place = gpu(0);
	size_t size = PART, first = 1;
	long long wide;
	int value;

	expect(cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		       plain, 4096) == CUDA_ERROR_INVALID_VALUE,
		"only managed memory has attributes");
	expect(cuMemRangeGetAttribute(&wide, sizeof(wide), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		       memory, PART) == CUDA_ERROR_INVALID_VALUE,
		"an attribute has its size");
	expect(cuMemRangeGetAttribute(&value, sizeof(value), (CUmem_range_attribute)99, memory,
		       PART) == CUDA_ERROR_INVALID_VALUE,
		"an attribute is known");
	expect(cuMemPrefetchBatchAsync(&memory, &size, 1, &place, &first, 1, 0, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"places begin at the first range");
	first = 0;
	expect(cuMemPrefetchBatchAsync(&memory, &size, 1, &place, &first, 1, 1, stream) ==
			CUDA_ERROR_INVALID_VALUE,
		"there are no flags");
	CHECK(cuMemAdvise(memory, PART, CU_MEM_ADVISE_SET_ACCESSED_BY, host()));
	expect(ask(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, PART) == CU_DEVICE_CPU,
		"the host accesses it");
	CHECK(cuMemAdvise(memory, PART, CU_MEM_ADVISE_UNSET_ACCESSED_BY, host()));
	CHECK(cuStreamSynchronize(stream));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr memory = 0, plain = 0;
	CUstream stream = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAllocManaged(&memory, 4 * PART, CU_MEM_ATTACH_GLOBAL));
	CHECK(cuMemAlloc(&plain, 4096));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	nothing_said(memory);
	advised(memory, device);
	prefetched(memory, device, stream);
	discarded(memory, device, stream);
	parts_of_host(memory, stream);
	errors(memory, plain, stream);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(plain));
	CHECK(cuMemFree(memory));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
