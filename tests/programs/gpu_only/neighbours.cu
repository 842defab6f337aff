/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The blocks of a cluster run in one GPC, according to the private table of the places of SMs.
 *
 * Runs: on a GPU
 * Builds with: -arch=sm_90
 */

#define NAME "neighbours"
#include "../helpers/entry.h"
#include "../helpers/program.h"
#include "../helpers/topology.h"

enum {
	CLUSTERS = 60,
	LARGEST = 16,
	SHARED_BYTES = 200000, /* so that each block has an SM */
	CLOCKS = 200000,
};

static unsigned char *gpcs, *numbers;

static __global__ void note_sm(unsigned *sms)
{
	long long start = clock64();
	unsigned sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	sms[blockIdx.x] = sm;
	while (clock64() - start < CLOCKS) {
	}
}

static void try_clusters(unsigned size)
{
	static unsigned sms[CLUSTERS * LARGEST];
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute attribute = {};
	unsigned *out;

	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = size;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	config.gridDim = dim3(CLUSTERS * size);
	config.blockDim = dim3(1);
	config.dynamicSmemBytes = SHARED_BYTES;
	config.attrs = &attribute;
	config.numAttrs = 1;
	CHECK(cudaMalloc(&out, sizeof(sms)));
	CHECK(cudaLaunchKernelEx(&config, note_sm, out));
	CHECK(cudaMemcpy(sms, out, CLUSTERS * size * sizeof(*sms), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(out));
	for (unsigned i = 0; i < CLUSTERS * size; i++) {
		unsigned first = i / size * size;

		if (gpcs[sms[i] / 2] != gpcs[sms[first] / 2])
			FAIL("clusters of %u: SMs %u and %u of one cluster are in GPC %d and %d",
				size, sms[first], sms[i], gpcs[sms[first] / 2], gpcs[sms[i] / 2]);
	}
}

int main(void)
{
	const struct topology_table *table;

	CHECK(cudaFree(NULL));
	expect_driver(topology_table((get_table_fn *)entry("cuGetExportTable"), &table),
		CUDA_SUCCESS, __LINE__);
	expect_driver(table->read(&gpcs, &numbers), CUDA_SUCCESS, __LINE__);
	CHECK(cudaFuncSetAttribute(
		note_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
	CHECK(cudaFuncSetAttribute(note_sm, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
	for (unsigned size = 2; size <= LARGEST; size *= 2)
		try_clusters(size);
	table->free(gpcs, numbers);
	printf(NAME ": ok\n");
	return 0;
}
