/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools that processes share. Any thread of the application.
 *
 * A pool goes to another process as a descriptor, its memory piece by piece: the
 * ticket of a piece opens it, at the same address. So the descriptor needs to say
 * no more than which GPU the pool is on, and whoever forges one has gained nothing.
 */

#include <string.h>
#include <sys/mman.h>

#include "client.h"
#include "ipc.h"
#include "pool.h"
#include "shm.h"

#define FILE_MAGIC 0x31706d2d6c6f6f70ull

/* What a pool's descriptor holds. */
struct pool_file {
	uint64_t magic;
	uint8_t uuid[16]; /* of the GPU, or of its part */
};

static CUresult write_file(const struct device *device, int *ret_fd)
{
	struct pool_file file = {.magic = FILE_MAGIC};
	int r;

	memcpy(file.uuid, device_facts(device)->uuid_v2, sizeof(file.uuid));
	r = shm_create_image("mps-pool", &file, sizeof(file), ret_fd);
	if (r == -ENOMEM || r == -ENOSPC)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return r < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static bool read_file(int fd, struct pool_file *ret_file)
{
	void *map;

	if (shm_map_image(fd, sizeof(*ret_file), &map) < 0)
		return false;
	memcpy(ret_file, map, sizeof(*ret_file));
	munmap(map, sizeof(*ret_file));
	return ret_file->magic == FILE_MAGIC;
}

/* CU_DEVICE_INVALID: it is not among those that the program sees. */
static CUdevice find_gpu(const uint8_t uuid[16])
{
	for (CUdevice i = 0; i < (CUdevice)device_count(); i++)
		if (memcmp(device_facts(device_get(i))->uuid_v2, uuid, 16) == 0)
			return i;
	return CU_DEVICE_INVALID;
}

CUresult local_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	const struct pool *found = pool_find(pool);
	CUresult result = link_check(&server);
	int fd = -EBADF;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle_out || !found || !found->is_shareable || flags != 0 ||
		handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = write_file(found->device, &fd);
	if (result == CUDA_SUCCESS)
		*(int *)handle_out = fd;
	return result;
}

CUresult local_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	CUresult result = link_check(&server);
	struct pool_file file;
	struct pool *pool;
	CUdevice ordinal;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool_out || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!read_file((int)(intptr_t)handle, &file))
		return CUDA_ERROR_INVALID_VALUE;
	ordinal = find_gpu(file.uuid);
	if (ordinal == CU_DEVICE_INVALID)
		return CUDA_ERROR_INVALID_DEVICE;
	pool = pool_new(device_get(ordinal), ordinal, POOL_IMPORTED);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult local_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	CUresult result = link_check(&server);
	struct memory_range range;

	if (result != CUDA_SUCCESS)
		return result;
	if (!shareData_out || !memory_find_start(ptr, MEMORY_KIND(MEMORY_POOLED), &range) ||
		!range.pool->is_shareable)
		return CUDA_ERROR_INVALID_VALUE;
	return ipc_give(&range, MEMORY_IMPORTED, shareData_out);
}

CUresult local_cuMemPoolImportPointer(
	CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	const struct pool *found = pool_find(pool);
	CUresult result = link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr_out || !shareData || !found || found->kind != POOL_IMPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	result = device_open(found->device);
	return result == CUDA_SUCCESS
		       ? ipc_take(found->device->primary, MEMORY_IMPORTED, shareData, ptr_out)
		       : result;
}
