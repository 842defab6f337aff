/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clusters of blocks that read and add to each other's shared memory: a histogram spread over a
 * cluster, with the cluster's size in the kernel's attribute and in the launch, and the
 * driver's results for such launches.
 * Builds with: -arch=sm_90
 */

#define NAME "clusters"
#include <cooperative_groups.h>

#include "../helpers/program.h"

namespace cg = cooperative_groups;

enum {
	COUNT = 1 << 14,
	BINS = 512,
	THREADS = 128,
	BLOCKS = 8,
	CLUSTER = 4
};

/* Each block of a cluster has a part of the bins. */
static __global__ void spread(const unsigned *in, unsigned *bins)
{
	extern __shared__ unsigned mine[];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned part = BINS / cluster.num_blocks();

	for (unsigned i = threadIdx.x; i < part; i += THREADS)
		mine[i] = 0;
	cluster.sync();
	for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < COUNT; i += THREADS * gridDim.x) {
		unsigned bin = in[i] % BINS;

		atomicAdd(cluster.map_shared_rank(&mine[bin % part], bin / part), 1u);
	}
	cluster.sync();
	for (unsigned i = threadIdx.x; i < part; i += THREADS)
		atomicAdd(&bins[cluster.block_rank() * part + i], mine[i]);
}

/* Every block passes its number to each block of the cluster in turn. */
static __global__ void __cluster_dims__(2, 2, 1) ring(unsigned *out)
{
	__shared__ unsigned value[2];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned n = cluster.num_blocks(), next = (cluster.block_rank() + 1) % n;
	unsigned here = blockIdx.y * gridDim.x + blockIdx.x;

	if (threadIdx.x == 0)
		value[0] = here + 1;
	cluster.sync();
	for (unsigned round = 0; round < n; round++) {
		if (threadIdx.x == 0)
			*cluster.map_shared_rank(&value[(round + 1) % 2], next) =
				value[round % 2] * 3;
		cluster.sync();
	}
	if (threadIdx.x == 0)
		out[here] = value[n % 2] + (cluster.dim_blocks().x << 16) +
			    (cluster.dim_blocks().y << 24);
}

static void try_spread(unsigned cluster)
{
	static unsigned host[COUNT], want[BINS], got[BINS];
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute attribute = {};
	unsigned *in = NULL, *bins = NULL, state = 31;
	int fits = 0;

	memset(want, 0, sizeof(want));
	for (int i = 0; i < COUNT; i++) {
		host[i] = next_random(&state);
		want[host[i] % BINS]++;
	}
	CHECK(cudaMalloc(&in, sizeof(host)));
	CHECK(cudaMalloc(&bins, sizeof(got)));
	CHECK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(bins, 0, sizeof(got)));
	config.gridDim = dim3(BLOCKS);
	config.blockDim = dim3(THREADS);
	config.dynamicSmemBytes = BINS / cluster * sizeof(unsigned);
	config.attrs = &attribute;
	config.numAttrs = 1;
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = cluster;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	CHECK(cudaOccupancyMaxActiveClusters(&fits, spread, &config));
	if (fits < 1)
		FAIL("no cluster of %u fits", cluster);
	CHECK(cudaLaunchKernelEx(&config, spread, (const unsigned *)in, bins));
	CHECK(cudaMemcpy(got, bins, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < BINS; i++)
		if (got[i] != want[i])
			FAIL("clusters of %u: bin %d has %u, not %u", cluster, i, got[i], want[i]);
	CHECK(cudaFree(in));
	CHECK(cudaFree(bins));
}

__global__ void nothing()
{
}

static cudaError_t launch_preferring(unsigned n_blocks, unsigned cluster, unsigned preferred)
{
	cudaLaunchAttribute attributes[2] = {};
	cudaLaunchConfig_t config = {};

	attributes[0].id = cudaLaunchAttributePreferredClusterDimension;
	attributes[0].val.preferredClusterDim.x = preferred;
	attributes[0].val.preferredClusterDim.y = preferred > 0;
	attributes[0].val.preferredClusterDim.z = preferred > 0;
	attributes[1].id = cudaLaunchAttributeClusterDimension;
	attributes[1].val.clusterDim.x = cluster;
	attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
	config.gridDim = dim3(n_blocks);
	config.blockDim = dim3(THREADS);
	config.attrs = attributes;
	config.numAttrs = cluster ? 2 : 1;
	return cudaLaunchKernelEx(&config, nothing);
}

/* Whether or not the GPU forms them, they consist of clusters, and divide the grid. */
static void try_preferred(void)
{
	static const struct {
		unsigned n_blocks, cluster, preferred;
	} wrong[] = {{8, 0, 1}, {8, 0, 2}, {8, 2, 3}, {8, 1, 3}, {1, 1, 2}};

	CHECK(launch_preferring(8, 2, 0));
	CHECK(launch_preferring(8, 0, 0));
	CHECK(launch_preferring(8, 1, 1));
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (launch_preferring(wrong[i].n_blocks, wrong[i].cluster, wrong[i].preferred) !=
			cudaErrorInvalidClusterSize)
			FAIL("%u blocks prefer %u to clusters of %u", wrong[i].n_blocks,
				wrong[i].preferred, wrong[i].cluster);
		cudaGetLastError();
	}
	CHECK(cudaDeviceSynchronize());
}

static void try_ring(void)
{
	unsigned got[16], *out = NULL;
	cudaFuncAttributes attributes;

	CHECK(cudaFuncGetAttributes(&attributes, ring));
	if (attributes.requiredClusterWidth != 2 || attributes.requiredClusterHeight != 2)
		FAIL("the kernel wants clusters of %d x %d", attributes.requiredClusterWidth,
			attributes.requiredClusterHeight);
	CHECK(cudaMalloc(&out, sizeof(got)));
	ring<<<dim3(4, 4), 32>>>(out);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < 16; i++)
		if (got[i] != (i + 1) * 81 + (2 << 16) + (2 << 24))
			FAIL("block %u has %#x", i, got[i]);
	/* A grid that is not a multiple of the cluster. */
	ring<<<dim3(3, 4), 32>>>(out);
	if (cudaGetLastError() == cudaSuccess)
		FAIL("a grid of 3 blocks has clusters of 2");
	CHECK(cudaFree(out));
}

int main(void)
{
	try_spread(1);
	try_spread(2);
	try_spread(CLUSTER);
	try_spread(8);
	try_ring();
	try_preferred();
	printf(NAME ": ok\n");
	return 0;
}
