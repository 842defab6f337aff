/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The blocks of a cluster run in one GPC, according to the driver's private table of the places
 * of SMs, by which cuBLASLt orders the parts of a matrix product.
 *
 * Runs: on a GPU
 * Builds with: -arch=sm_90
 */

#define NAME "neighbours"
#include "../helpers/program.h"

#include <cuda.h>

enum {
	READ = 4,
	FREE = 13,
	CLUSTERS = 60,
	LARGEST = 16,
	SHARED_BYTES = 200000, /* so that each block has an SM */
	CLOCKS = 200000,
};

typedef CUresult get_table_fn(const void **, const CUuuid *);

static unsigned char *gpcs, *numbers;
static void (*free_places)(unsigned char *, unsigned char *);

static __global__ void note_sm(unsigned *sms)
{
	long long start = clock64();
	unsigned sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	sms[blockIdx.x] = sm;
	while (clock64() - start < CLOCKS) {
	}
}

static void read_places(void)
{
	static const unsigned char id[] = {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87,
		0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca};
	cudaDriverEntryPointQueryResult found;
	void *const *table = NULL;
	void *get_table = NULL;
	int result;

	CHECK(cudaFree(NULL));
	CHECK(cudaGetDriverEntryPointByVersion(
		"cuGetExportTable", &get_table, 3000, cudaEnableDefault, &found));
	result = ((get_table_fn *)get_table)((const void **)&table, (const CUuuid *)id);
	if (result == CUDA_SUCCESS)
		result = ((CUresult(*)(unsigned char **, unsigned char **))table[READ])(
			&gpcs, &numbers);
	if (result != CUDA_SUCCESS) {
		printf(NAME ": no table: %d\n", result);
		exit(1);
	}
	free_places = (void (*)(unsigned char *, unsigned char *))table[FREE];
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

		if (gpcs[sms[i] / 2] == gpcs[sms[first] / 2])
			continue;
		printf(NAME ": clusters of %u: SMs %u and %u of one cluster are in GPC %d and %d\n",
			size, sms[first], sms[i], gpcs[sms[first] / 2], gpcs[sms[i] / 2]);
		exit(1);
	}
}

int main(void)
{
	read_places();
	CHECK(cudaFuncSetAttribute(
		note_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
	CHECK(cudaFuncSetAttribute(note_sm, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
	for (unsigned size = 2; size <= LARGEST; size *= 2)
		try_clusters(size);
	free_places(gpcs, numbers);
	printf(NAME ": ok\n");
	return 0;
}
