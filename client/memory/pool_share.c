/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools shared between processes. Any thread of the application.
 *
 * A pool goes to another process as a descriptor, its memory piece by piece: the
 * ticket of a piece opens that piece at the same address. So the descriptor only
 * has to identify the pool and its GPU: importing a pool twice gives the same pool.
 * A forged descriptor gives access to nothing.
 *
 * Invariant: an imported pool exists as long as any memory of it is open.
 */

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls_memory.h"
#include "ipc.h"
#include "lock.h"
#include "pool.h"
#include "shm.h"

#define FILE_MAGIC 0x32706d2d6c6f6f70ull

/* The contents of a pool's descriptor. */
struct pool_file {
	uint64_t magic;
	uint8_t uuid[16]; /* of the GPU, or of its part */
	uint8_t name[POOL_NAME_BYTES];
};

static struct lock share_lock = LOCK_INIT(POOL_SHARES);
static struct pool *all_imported;

/* At the first export. By system call number: getrandom() is a symbol only in newer libraries. */
static bool give_name(struct pool *pool)
{
	static const uint8_t none[POOL_NAME_BYTES];
	const size_t size = sizeof(pool->name);

	lock_hold(&share_lock);
	return memcmp(pool->name, none, sizeof(none)) != 0 ||
	       syscall(SYS_getrandom, pool->name, size, 0) == (long)size;
}

static CUresult write_file(const struct pool *pool, int *ret_fd)
{
	struct pool_file file = {.magic = FILE_MAGIC};
	int r;

	memcpy(file.uuid, device_facts(pool->device)->uuid_v2, sizeof(file.uuid));
	memcpy(file.name, pool->name, sizeof(file.name));
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

/* CU_DEVICE_INVALID: the program does not see this GPU. */
static CUdevice find_gpu_by_uuid(const uint8_t uuid[16])
{
	for (CUdevice i = 0; i < (CUdevice)device_count(); i++)
		if (memcmp(device_facts(device_get(i))->uuid_v2, uuid, 16) == 0)
			return i;
	return CU_DEVICE_INVALID;
}

CUresult local_cuMemPoolExportToShareableHandle(void *handle_out, struct pool *pool,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	CUresult result;
	int fd = -EBADF;

	if (!give_name(pool))
		return CUDA_ERROR_OPERATING_SYSTEM;
	result = write_file(pool, &fd);
	if (result == CUDA_SUCCESS)
		*(int *)handle_out = fd;
	return result;
}

/* Under the lock. NULL: out of memory. */
static struct pool *pool_import(CUdevice ordinal, const struct pool_file *file)
{
	const struct pool_home home = pool_home_of(device_get(ordinal), ordinal);
	struct pool *pool = all_imported;

	while (pool && memcmp(pool->name, file->name, sizeof(pool->name)) != 0)
		pool = pool->next_imported;
	if (!pool) {
		pool = pool_new(&home, POOL_IMPORTED);
		if (!pool)
			return NULL;
		memcpy(pool->name, file->name, sizeof(pool->name));
		pool->next_imported = all_imported;
		all_imported = pool;
	}
	pool->n_imports++;
	return pool;
}

CUresult pool_unimport(struct pool *pool)
{
	struct pool **link = &all_imported;
	CUresult result = CUDA_SUCCESS;

	lock_hold(&share_lock);
	while (*link && *link != pool)
		link = &(*link)->next_imported;
	if (!*link || atomic_load_explicit(&pool->n_opened, memory_order_acquire) > 0) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (--pool->n_imports == 0) {
		*link = pool->next_imported;
		pool_destroy(pool);
	}
	return result;
}

CUresult local_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct pool_file file;
	struct pool *pool;
	CUdevice ordinal;

	if (!read_file((int)(intptr_t)handle, &file))
		return CUDA_ERROR_UNKNOWN;
	ordinal = find_gpu_by_uuid(file.uuid);
	if (ordinal == CU_DEVICE_INVALID)
		return CUDA_ERROR_INVALID_DEVICE;
	lock_take(&share_lock);
	pool = pool_import(ordinal, &file);
	lock_release(&share_lock);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult local_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct memory_range range;

	if (!shareData_out || !memory_find_start(ptr, MEMORY_KIND(MEMORY_POOLED), &range) ||
		!range.pool->is_shareable)
		return CUDA_ERROR_INVALID_VALUE;
	return ipc_give(&range, MEMORY_IMPORTED, shareData_out);
}

CUresult local_cuMemPoolImportPointer(
	CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	/* So that the pool cannot end meanwhile. */
	lock_hold(&share_lock);
	struct pool *found = pool_find(pool);
	CUresult result;

	if (!found || found->kind != POOL_IMPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	result = device_open(found->device);
	return result == CUDA_SUCCESS ? ipc_take(found->device->primary, found, shareData, ptr_out)
				      : result;
}
