/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of an allocation are, and what a descriptor of them tells another
 * process: the name of a memfd, or the tag of a chunk.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "backing.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG_RDMA_SHIFT 8

static uint32_t tag_of(const CUmemAllocationProp *prop)
{
	return prop->allocFlags.compressionType | (uint32_t)prop->allocFlags.gpuDirectRDMACapable
							  << TAG_RDMA_SHIFT;
}

static int memfd_open(const struct device *device, size_t size, const CUmemAllocationProp *prop)
{
	_cleanup_close_ int fd = -EBADF;
	char name[32];

	snprintf(name, sizeof(name), "softgpu-%d-%u-%u", device ? device->ordinal : -1,
		prop->allocFlags.compressionType, prop->allocFlags.gpuDirectRDMACapable);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -ENOMEM;
	return TAKE_FD(fd);
}

static CUresult memfd_new(struct device *device, size_t size, const CUmemAllocationProp *prop,
	struct backing *ret_backing)
{
	CUresult result = device ? device_charge(device, size) : CUDA_SUCCESS;
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	fd = memfd_open(device, size, prop);
	if (fd < 0) {
		if (device)
			device_refund(device, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_backing = (struct backing){
		.chunk = {.fd = fd, .size = size}, .device = device, .is_charged = device};
	return CUDA_SUCCESS;
}

CUresult backing_new(struct device *device, size_t size, const CUmemAllocationProp *prop,
	struct backing *ret_backing)
{
	struct card_chunk chunk;
	CUresult result;

	if (!device || !card_is_shared())
		return memfd_new(device, size, prop, ret_backing);
	result = card_chunk_new(device, size, tag_of(prop), &chunk);
	if (result != CUDA_SUCCESS)
		return result;
	stat_add(STAT_DEVICE_BYTES, (int64_t)size);
	*ret_backing = (struct backing){
		.chunk = chunk, .device = device, .is_of_card = true, .is_charged = true};
	return CUDA_SUCCESS;
}

/* Reads the name that memfd_open() gave to the descriptor. */
static bool import_name(int fd, int *ret_ordinal, CUmemAllocationProp *prop)
{
	char path[64], name[PATH_MAX];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, name, sizeof(name) - 1);
	if (len < 0)
		return false;
	name[len] = '\0';
	return sscanf(name, "/memfd:softgpu-%d-%hhu-%hhu", ret_ordinal,
		       &prop->allocFlags.compressionType,
		       &prop->allocFlags.gpuDirectRDMACapable) == 3;
}

static bool import_memfd(
	int fd, int *ret_ordinal, CUmemAllocationProp *prop, struct backing *backing)
{
	struct stat st;

	if (!import_name(fd, ret_ordinal, prop) || fstat(fd, &st) < 0 || st.st_size == 0)
		return false;
	backing->chunk.size = (uint64_t)st.st_size;
	return true;
}

static bool import_chunk(
	int fd, int *ret_ordinal, CUmemAllocationProp *prop, struct backing *backing)
{
	if (!card_chunk_find(fd, &backing->chunk, ret_ordinal))
		return false;
	prop->allocFlags.compressionType = (unsigned char)backing->chunk.tag;
	prop->allocFlags.gpuDirectRDMACapable =
		(unsigned char)(backing->chunk.tag >> TAG_RDMA_SHIFT);
	backing->is_of_card = true;
	return true;
}

static struct device *device_of_ordinal(int ordinal)
{
	for (int i = 0; i < driver.n_devices; i++)
		if (driver.devices[i].ordinal == ordinal)
			return &driver.devices[i];
	return NULL;
}

CUresult backing_import(int fd, CUmemAllocationProp *prop, struct backing *ret_backing)
{
	struct backing backing = {0};
	int ordinal;

	if (!import_chunk(fd, &ordinal, prop, &backing) &&
		!import_memfd(fd, &ordinal, prop, &backing))
		return CUDA_ERROR_UNKNOWN;
	backing.device = device_of_ordinal(ordinal);
	if (!backing.device)
		return CUDA_ERROR_INVALID_DEVICE;
	prop->location.id = (int)(backing.device - driver.devices);
	backing.chunk.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (backing.chunk.fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_backing = backing;
	return CUDA_SUCCESS;
}

int backing_export(const struct backing *backing)
{
	return fcntl(backing->chunk.fd, F_DUPFD_CLOEXEC, 0);
}

void backing_close(const struct backing *backing)
{
	if (backing->is_of_card) {
		card_chunk_close(&backing->chunk);
		if (backing->is_charged)
			stat_add(STAT_DEVICE_BYTES, -(int64_t)backing->chunk.size);
		return;
	}
	close(backing->chunk.fd);
	if (backing->is_charged)
		device_refund(backing->device, backing->chunk.size);
}
