/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Advice about managed memory and the place of its last prefetch, read back: set one by one by both
 * versions of the calls, and read together. Each lasts until it is unset, whatever else is set and
 * however the memory is used, and ends with the memory.
 */

#define NAME "advice"
#include <string.h>

#include "../helpers/driver_program.h"

#define SIZE ((size_t)4 << 20)

/* The first versions. */
#undef cuMemAdvise
#undef cuMemPrefetchAsync
CUresult cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUdevice device);
CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream);

static CUdevice device;
static CUdeviceptr memory;
static CUstream stream;

/* All attributes of a range. A place is a GPU's number, the host, or none. */
struct attributes {
	int is_read_mostly;
	int preferred, prefetched;
	int preferred_type, prefetched_type;
	int accessing[3];
};

static const struct attributes none = {
	.preferred = CU_DEVICE_INVALID,
	.prefetched = CU_DEVICE_INVALID,
	.preferred_type = CU_MEM_LOCATION_TYPE_INVALID,
	.prefetched_type = CU_MEM_LOCATION_TYPE_INVALID,
	.accessing = {CU_DEVICE_INVALID, CU_DEVICE_INVALID, CU_DEVICE_INVALID},
};

/* In one call, and each in a call of its own. */
static struct attributes read_all(CUdeviceptr address, size_t size)
{
	struct attributes together, alone;
	CUmem_range_attribute names[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
	void *data[] = {&together.is_read_mostly, &together.preferred, &together.prefetched,
		&together.preferred_type, &together.prefetched_type, together.accessing};
	void *each[] = {&alone.is_read_mostly, &alone.preferred, &alone.prefetched,
		&alone.preferred_type, &alone.prefetched_type, alone.accessing};
	size_t sizes[] = {sizeof(int), sizeof(int), sizeof(int), sizeof(int), sizeof(int),
		sizeof(together.accessing)};
	const unsigned n = sizeof(names) / sizeof(*names);

	memset(&together, 0x55, sizeof(together));
	memset(&alone, 0xaa, sizeof(alone));
	CHECK(cuMemRangeGetAttributes(data, sizes, names, n, address, size));
	for (unsigned i = 0; i < n; i++)
		CHECK(cuMemRangeGetAttribute(each[i], sizes[i], names[i], address, size));
	MUST(!memcmp(&together, &alone, sizeof(alone)));
	return together;
}

static void check_all(const struct attributes *wanted, int line)
{
	struct attributes got = read_all(memory, SIZE);

	must(!memcmp(&got, wanted, sizeof(got)), "the attributes of the whole memory", line);
	got = read_all(memory + SIZE / 2, 4096);
	must(!memcmp(&got, wanted, sizeof(got)), "the attributes of a page", line);
}

#define ALL_ARE(wanted) check_all(wanted, __LINE__)

static void advise(CUmem_advise advice, CUmemLocationType type)
{
	CHECK(cuMemAdvise_v2(memory, SIZE, advice,
		(CUmemLocation){type, type == CU_MEM_LOCATION_TYPE_DEVICE ? device : 0}));
}

static void set_one_by_one(struct attributes *said)
{
	advise(CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_LOCATION_TYPE_DEVICE);
	said->is_read_mostly = 1;
	ALL_ARE(said);
	advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_LOCATION_TYPE_DEVICE);
	said->preferred = device;
	said->preferred_type = CU_MEM_LOCATION_TYPE_DEVICE;
	ALL_ARE(said);
	advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_LOCATION_TYPE_HOST);
	said->preferred = CU_DEVICE_CPU;
	said->preferred_type = CU_MEM_LOCATION_TYPE_HOST;
	ALL_ARE(said);
	advise(CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_LOCATION_TYPE_DEVICE);
	said->accessing[0] = device;
	ALL_ARE(said);
	CHECK(cuMemPrefetchAsync_v2(
		memory, SIZE, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device}, 0, stream));
	CHECK(cuStreamSynchronize(stream));
	said->prefetched = device;
	said->prefetched_type = CU_MEM_LOCATION_TYPE_DEVICE;
	ALL_ARE(said);
}

/* Use of the memory changes no advice. */
static void use(const struct attributes *said)
{
	unsigned word = 0;

	CHECK(cuMemsetD32Async(memory, 7, SIZE / 4, stream));
	CHECK(cuMemcpyDtoHAsync(&word, memory + SIZE - 4, 4, stream));
	CHECK(cuStreamSynchronize(stream));
	MUST(word == 7);
	ALL_ARE(said);
}

static void unset_one_by_one(struct attributes *said)
{
	advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_MEM_LOCATION_TYPE_HOST);
	said->preferred = none.preferred;
	said->preferred_type = none.preferred_type;
	ALL_ARE(said);
	advise(CU_MEM_ADVISE_UNSET_READ_MOSTLY, CU_MEM_LOCATION_TYPE_DEVICE);
	said->is_read_mostly = 0;
	ALL_ARE(said);
	advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_MEM_LOCATION_TYPE_DEVICE);
	said->accessing[0] = CU_DEVICE_INVALID;
	ALL_ARE(said);
}

static void by_first_versions(struct attributes *said)
{
	CHECK(cuMemAdvise(memory, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
	said->preferred = device;
	said->preferred_type = CU_MEM_LOCATION_TYPE_DEVICE;
	ALL_ARE(said);
	CHECK(cuMemAdvise(memory, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	said->accessing[0] = CU_DEVICE_CPU;
	ALL_ARE(said);
	CHECK(cuMemPrefetchAsync(memory, SIZE, CU_DEVICE_CPU, stream));
	CHECK(cuStreamSynchronize(stream));
	said->prefetched = CU_DEVICE_CPU;
	said->prefetched_type = CU_MEM_LOCATION_TYPE_HOST;
	ALL_ARE(said);
}

int main(void)
{
	struct attributes said = none;
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAllocManaged(&memory, SIZE, CU_MEM_ATTACH_GLOBAL));
	ALL_ARE(&none);
	set_one_by_one(&said);
	use(&said);
	unset_one_by_one(&said);
	by_first_versions(&said);
	CHECK(cuMemFree(memory));
	CHECK(cuMemAllocManaged(&memory, SIZE, CU_MEM_ATTACH_GLOBAL));
	ALL_ARE(&none);
	CHECK(cuMemFree(memory));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
