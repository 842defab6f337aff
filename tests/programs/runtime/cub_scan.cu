/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUB, whose kernels are in its headers: scans, reductions and radix sorts of a whole device,
 * and a sort within a block.
 */

#define NAME "cub_scan"
#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include "../helpers/program.h"

enum {
	COUNT = 10007,
	THREADS = 128,
	EACH = 4
};

static unsigned host[COUNT], got[COUNT];

/* CUB first returns how much memory it needs. */
template <typename F> static void with_memory(F call)
{
	size_t size = 0;
	void *memory = NULL;

	CHECK(call(NULL, size));
	CHECK(cudaMalloc(&memory, size));
	CHECK(call(memory, size));
	CHECK(cudaFree(memory));
}

static void try_scan(const unsigned *in, unsigned *out)
{
	unsigned sum = 0;

	with_memory([&](void *memory, size_t &size) {
		return cub::DeviceScan::ExclusiveSum(memory, size, in, out, (int)COUNT);
	});
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		if (got[i] != sum)
			FAIL("scan %d is %u, not %u", i, got[i], sum);
		sum += host[i];
	}
	with_memory([&](void *memory, size_t &size) {
		return cub::DeviceReduce::Sum(memory, size, in, out, (int)COUNT);
	});
	CHECK(cudaMemcpy(got, out, sizeof(*got), cudaMemcpyDeviceToHost));
	if (got[0] != sum)
		FAIL("the sum is %u, not %u", got[0], sum);
}

static void try_sort(const unsigned *in, unsigned *out)
{
	unsigned long long want = 0, have = 0;

	with_memory([&](void *memory, size_t &size) {
		return cub::DeviceRadixSort::SortKeys(memory, size, in, out, (int)COUNT);
	});
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		want += (unsigned long long)host[i] * host[i];
		have += (unsigned long long)got[i] * got[i];
		if (i && got[i - 1] > got[i])
			FAIL("elements %d and %d are in the wrong order", i - 1, i);
	}
	if (have != want)
		FAIL("the sorted elements are others");
}

static __global__ void sort_block(unsigned *data)
{
	typedef cub::BlockRadixSort<unsigned, THREADS, EACH> sorter;
	__shared__ typename sorter::TempStorage memory;
	unsigned mine[EACH];

	for (int i = 0; i < EACH; i++)
		mine[i] = data[threadIdx.x * EACH + i];
	sorter(memory).SortDescending(mine);
	for (int i = 0; i < EACH; i++)
		data[threadIdx.x * EACH + i] = mine[i];
}

static void try_block(unsigned *data)
{
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	sort_block<<<1, THREADS>>>(data);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 1; i < THREADS * EACH; i++)
		if (got[i - 1] < got[i])
			FAIL("elements %d and %d of the block are in the wrong order", i - 1, i);
}

int main(void)
{
	unsigned *in = NULL, *out = NULL, state = 19;

	for (int i = 0; i < COUNT; i++)
		host[i] = next_random(&state) >> 8;
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(host)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	try_scan(in, out);
	try_sort(in, out);
	try_block(out);
	CHECK(cudaFree(in));
	CHECK(cudaFree(out));
	printf(NAME ": ok\n");
	return 0;
}
