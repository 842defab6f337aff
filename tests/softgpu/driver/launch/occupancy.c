/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many blocks fit on an SM: computed from the limits of an H200.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "launch.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/green.h"

#define SM_WARPS 64
#define SM_BLOCKS 32
#define SM_REGISTERS 65536
#define SM_SHARED 233472
#define BLOCK_SHARED_RESERVED 1024
#define SHARED_UNIT 128
#define REGISTER_UNIT 256 /* of a warp */
#define BLOCK_THREADS_MAX 1024
#define CLUSTER_BLOCKS_MAX 8
#define CLUSTER_BLOCKS_NON_PORTABLE_MAX 16

static int occupancy(const struct ptx_kernel_info *info, uint32_t block_size, size_t dynamic)
{
	uint32_t warps = (block_size + 31) / 32;
	uint32_t registers = ALIGN_UP(MAX(info->n_regs, 1U) * 32, REGISTER_UNIT) * warps;
	size_t shared = ALIGN_UP(info->shared_static + dynamic, (size_t)SHARED_UNIT);
	size_t blocks = MIN(SM_BLOCKS, SM_WARPS / warps);

	blocks = MIN(blocks, SM_REGISTERS / registers);
	return (int)MIN(blocks, SM_SHARED / (shared + BLOCK_SHARED_RESERVED));
}

/* As the driver, which counts the SMs of the current green context. */
static int current_sms(void)
{
	const struct sm_set sms = green_sms(context_green(NULL));

	return (int)sm_set_count(&sms);
}

static size_t dynamic_max(const struct ptx_kernel_info *info, const struct settings *settings)
{
	return settings->max_dynamic_shared >= 0 ? (size_t)settings->max_dynamic_shared
						 : SHARED_DEFAULT - (size_t)info->shared_static;
}

CUresult launch_occupancy(CUfunction function, uint32_t block_size, size_t dynamic, int *ret_blocks)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(function, &info, &settings);

	if (result != CUDA_SUCCESS)
		return result;
	if (block_size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (block_size > BLOCK_THREADS_MAX || dynamic > dynamic_max(info, settings))
		*ret_blocks = 0;
	else
		*ret_blocks = occupancy(info, block_size, dynamic);
	return CUDA_SUCCESS;
}

static CUresult max_blocks(int *n, CUfunction function, int block_size, size_t dynamic)
{
	if (!n || block_size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_occupancy(function, (uint32_t)block_size, dynamic, n);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	ENTER(CALL_CONTEXT);
	return max_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
	ENTER(CALL_CONTEXT);
	if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	return max_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}

/* The program's callback may call the driver. */
static size_t shared_of_block(CUoccupancyB2DSize shared_of, int threads)
{
	size_t dynamic;

	pthread_mutex_unlock(&driver.lock);
	dynamic = shared_of(threads);
	pthread_mutex_lock(&driver.lock);
	return dynamic;
}

/* The block size with the most threads on an SM; of equal ones, the largest. */
static CUresult potential(int *min_grid, int *block_size, CUfunction function,
	CUoccupancyB2DSize shared_of, size_t dynamic, int limit)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(function, &info, &settings);
	int best = 0, best_blocks = 0, blocks;

	if (!min_grid || !block_size || limit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	if (limit == 0 || limit > (int)info->max_threads)
		limit = (int)info->max_threads;
	for (int size = (limit + 31) / 32 * 32; size > 0; size -= 32) {
		int threads = MIN(size, limit);

		if (shared_of)
			dynamic = shared_of_block(shared_of, threads);
		result = launch_occupancy(function, (uint32_t)threads, dynamic, &blocks);
		if (result != CUDA_SUCCESS)
			return result;
		if (blocks * threads > best * best_blocks) {
			best = threads;
			best_blocks = blocks;
		}
	}
	*block_size = best;
	*min_grid = best_blocks * current_sms();
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
	CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)
{
	ENTER(CALL_CONTEXT);
	return potential(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
		blockSizeLimit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit, unsigned int flags)
{
	ENTER(CALL_CONTEXT);
	if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	return potential(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
		blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	size_t room;
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = function_describe(func, &info, &settings);
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	room = (size_t)SM_SHARED / (size_t)numBlocks / SHARED_UNIT * SHARED_UNIT;
	room = room > BLOCK_SHARED_RESERVED + info->shared_static
		       ? room - BLOCK_SHARED_RESERVED - info->shared_static
		       : 0;
	*dynamicSmemSize = MIN(room, dynamic_max(info, settings));
	return CUDA_SUCCESS;
}

static uint32_t cluster_blocks(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			return config->attrs[i].value.clusterDim.x *
			       config->attrs[i].value.clusterDim.y *
			       config->attrs[i].value.clusterDim.z;
	return 1;
}

CUresult cuOccupancyMaxActiveClusters(
	int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	uint32_t cluster;
	int blocks;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!numClusters || !config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	cluster = cluster_blocks(config);
	if (cluster == 0 || cluster > CLUSTER_BLOCKS_NON_PORTABLE_MAX)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	result = launch_occupancy(func, config->blockDimX * config->blockDimY * config->blockDimZ,
		config->sharedMemBytes, &blocks);
	if (result == CUDA_SUCCESS)
		*numClusters = blocks * current_sms() / (int)cluster;
	return result;
}

CUresult cuOccupancyMaxPotentialClusterSize(
	int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = function_describe(func, &info, &settings);
	if (!clusterSize || !config)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*clusterSize = settings->is_non_portable ? CLUSTER_BLOCKS_NON_PORTABLE_MAX
							 : CLUSTER_BLOCKS_MAX;
	return result;
}
