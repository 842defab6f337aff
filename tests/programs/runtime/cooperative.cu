/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches with attributes: a sum by a grid with grid-wide barriers, grids that are too large
 * for that, clusters, priorities and programmatic serialisation, and the driver's results for
 * occupancy.
 */

#include <cooperative_groups.h>

#include "../helpers/program.h"

#define NAME "cooperative"
#define EXPECT(error, call) expect((call), (error), #call, __LINE__)

namespace cg = cooperative_groups;

enum {
	THREADS = 128,
	COUNT = 20000
};

static void expect(cudaError_t error, cudaError_t wanted, const char *what, int line)
{
	if (error == wanted) {
		cudaGetLastError();
		return;
	}
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, error, wanted);
	exit(1);
}

/* Halves the array repeatedly; each half needs the whole one before. */
__global__ void sum(unsigned *data, unsigned count)
{
	cg::grid_group grid = cg::this_grid();

	while (count > 1) {
		unsigned half = (count + 1) / 2;

		for (unsigned i = grid.thread_rank(); i + half < count; i += grid.size())
			data[i] += data[i + half];
		grid.sync();
		count = half;
	}
}

__global__ void add(unsigned *data, unsigned count, unsigned value)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] += value;
}

static void try_cooperative(unsigned *data)
{
	static unsigned host[COUNT];
	unsigned count = COUNT, wanted = 0, got = 0;
	int blocks = 0, sms = 0, can = 0;
	void *params[] = {&data, &count};

	CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, THREADS, 0));
	if (!can || blocks < 1) {
		printf(NAME ": no cooperative launches: %d, %d blocks an SM\n", can, blocks);
		exit(1);
	}
	for (unsigned i = 0; i < COUNT; i++)
		wanted += host[i] = i * 7 + 1;
	CHECK(cudaMemcpy(data, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaLaunchCooperativeKernel(
		sum, dim3(sms < 8 ? sms : 8), dim3(THREADS), params, 0, NULL));
	CHECK(cudaMemcpy(&got, data, sizeof(got), cudaMemcpyDeviceToHost));
	if (got != wanted) {
		printf(NAME ": the sum is %u, not %u\n", got, wanted);
		exit(1);
	}
	EXPECT(cudaErrorCooperativeLaunchTooLarge,
		cudaLaunchCooperativeKernel(
			sum, dim3(blocks * sms + 1), dim3(THREADS), params, 0, NULL));
}

static void launch(unsigned *data, unsigned value, cudaLaunchAttribute attribute)
{
	cudaLaunchConfig_t config = {};

	config.gridDim = dim3((COUNT + THREADS - 1) / THREADS / 4 * 4 + 4);
	config.blockDim = dim3(THREADS);
	config.attrs = &attribute;
	config.numAttrs = 1;
	CHECK(cudaLaunchKernelEx(&config, add, data, (unsigned)COUNT, value));
}

static void try_attributes(unsigned *data)
{
	static unsigned host[COUNT];
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	int value = 0;

	CHECK(cudaMemset(data, 0, sizeof(host)));
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = 4;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	launch(data, 1, attribute);
	config.gridDim = dim3(8);
	config.blockDim = dim3(THREADS);
	config.attrs = &attribute;
	config.numAttrs = 1;
	CHECK(cudaOccupancyMaxActiveClusters(&value, add, &config));
	if (value < 1) {
		printf(NAME ": no cluster of 4 fits\n");
		exit(1);
	}
	CHECK(cudaOccupancyMaxPotentialClusterSize(&value, add, &config));
	if (value < 8) {
		printf(NAME ": clusters have at most %d blocks\n", value);
		exit(1);
	}
	attribute.id = cudaLaunchAttributePriority;
	attribute.val.priority = -1;
	launch(data, 10, attribute);
	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	launch(data, 100, attribute);
	attribute.id = cudaLaunchAttributeCooperative;
	attribute.val.cooperative = 1;
	launch(data, 1000, attribute);
	CHECK(cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < COUNT; i++) {
		if (host[i] == 1111)
			continue;
		printf(NAME ": element %u is %u, not 1111\n", i, host[i]);
		exit(1);
	}
}

int main(void)
{
	unsigned *data = NULL;
	size_t room = 0;

	CHECK(cudaMalloc(&data, COUNT * sizeof(unsigned)));
	try_cooperative(data);
	try_attributes(data);
	CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, add, 2, THREADS));
	if (room < 16384) {
		printf(NAME ": two blocks have %zu bytes each\n", room);
		return 1;
	}
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
