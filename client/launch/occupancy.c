/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many blocks of a kernel fit on the GPU. Any thread of the application.
 *
 * Invariant: the real driver, through the server, provides the one number that
 * depends on the GPU's internals.
 */

#include "occupancy.h"

#include <stdatomic.h>

#include "calls_launch.h"
#include "client/context/share.h"
#include "send_launch.h"

CUresult occupancy_ask(
	CUfunction function, int block_size, size_t shared_bytes, unsigned flags, int *ret_blocks)
{
	const struct kernel *kernel = kernel_find(function);
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret_blocks || block_size <= 0 ||
		(flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	return send_kernel_occupancy(kernel_id(kernel), context->device->index, block_size,
		shared_bytes, flags, ret_blocks);
}

/*
 * One word, so that other threads see a complete answer or none: the shape in the
 * high bits, the blocks in the low bits.
 */
static uint64_t occupancy_word(
	const struct device *device, uint32_t block_size, uint32_t shared_bytes)
{
	return 1ull << 63 | (uint64_t)device->index << 52 | (uint64_t)block_size << 40 |
	       (uint64_t)shared_bytes << 12;
}

CUresult occupancy_blocks(struct kernel *kernel, const struct device *device, uint32_t block_size,
	uint32_t shared_bytes, uint32_t *ret_blocks)
{
	uint64_t wanted = occupancy_word(device, block_size, shared_bytes);
	uint64_t known = atomic_load_explicit(&kernel->occupancy, memory_order_relaxed);
	int32_t blocks = 0;
	CUresult result;

	if ((known & ~0xfffull) == wanted) {
		*ret_blocks = (uint32_t)(known & 0xfff);
		return CUDA_SUCCESS;
	}
	result = send_kernel_occupancy(
		kernel_id(kernel), device->index, (int32_t)block_size, shared_bytes, 0, &blocks);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_blocks = (uint32_t)MIN(MAX(blocks, 0), 0xfff);
	atomic_store_explicit(&kernel->occupancy, wanted | *ret_blocks, memory_order_relaxed);
	return CUDA_SUCCESS;
}

void occupancy_forget(struct kernel *kernel)
{
	atomic_store_explicit(&kernel->occupancy, 0, memory_order_relaxed);
}

/* Tries all sizes of whole warps, as the documentation describes. */
CUresult local_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit, unsigned int flags)
{
	const struct kernel *kernel = kernel_find(func);
	int best_threads = 0, best_blocks = 0, best_size = 0, largest, warp, sms;
	const int32_t *attribute;
	struct context *context = context_current;
	CUresult result;

	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	attribute = device_facts(context->device)->attribute;
	warp = MAX(attribute[CU_DEVICE_ATTRIBUTE_WARP_SIZE], 1);
	sms = (int)share_sms(context->device);
	largest = MIN(attribute[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		kernel->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK]);
	if (blockSizeLimit > 0)
		largest = MIN(largest, blockSizeLimit);
	for (int size = largest; size > 0; size = (size - 1) / warp * warp) {
		size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size)
							   : dynamicSMemSize;
		int blocks = 0;

		result = occupancy_ask(func, size, shared, flags, &blocks);
		if (result != CUDA_SUCCESS)
			return result;
		if (blocks * size > best_threads) {
			best_threads = blocks * size;
			best_blocks = blocks;
			best_size = size;
		}
		/* A smaller block cannot improve on a full SM. */
		if (best_threads >= attribute[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR])
			break;
	}
	*minGridSize = best_blocks * sms;
	*blockSize = best_size;
	return CUDA_SUCCESS;
}

CUresult occupancy_ask_clusters(
	int *value, CUfunction func, const CUlaunchConfig *config, bool largest)
{
	const struct kernel *kernel = kernel_find(func);
	uint32_t cluster[3] = {0};
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
			cluster[0] = config->attrs[i].value.clusterDim.x;
			cluster[1] = config->attrs[i].value.clusterDim.y;
			cluster[2] = config->attrs[i].value.clusterDim.z;
		}
	return send_kernel_clusters(kernel_id(kernel), context->device->index, largest,
		(const uint32_t[3]){config->gridDimX, config->gridDimY, config->gridDimZ},
		(const uint32_t[3]){config->blockDimX, config->blockDimY, config->blockDimZ},
		config->sharedMemBytes, cluster, value);
}
