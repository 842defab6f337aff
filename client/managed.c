/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Managed memory: pinned memory under another name, which never moves. Any
 * thread of the application.
 *
 * Invariant: advice is checked as the driver does and changes nothing.
 */

#include "client.h"
#include "host.h"
#include "library.h"
#include "log.h"
#include "managed.h"
#include "stream.h"

#define ATTACH_FLAGS (CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE)

void managed_refused(const char *name)
{
	log_error("%s is a variable of __managed__, which is not served: the driver has it where "
		  "this "
		  "process does not reach it; use cudaMallocManaged()",
		name);
}

/*
 * The runtime asks for each such variable of an image when it has loaded that,
 * goes on without those it does not get, and their addresses are NULL. Launched
 * with these, a kernel would fault: the fault of everybody in that server.
 */
CUresult local_cuLibraryGetManaged(
	CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct library *found = library_find(library);

	if ((!dptr && !bytes) || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	managed_refused(name);
	__atomic_store_n(&found->is_refused, 1, __ATOMIC_RELAXED);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult local_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_range range = {
		.size = bytesize,
		.kind = MEMORY_MANAGED,
		.flags = flags,
	};
	CUresult result = context_enter(&range.context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || bytesize == 0 ||
		(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	result = host_new(&range);
	if (result == CUDA_SUCCESS)
		*dptr = range.address;
	return result;
}

static CUresult check(CUdeviceptr dptr, size_t count)
{
	struct memory_range range;

	if (count == 0 || !memory_find(dptr, &range) || range.kind != MEMORY_MANAGED ||
		!range_ok(dptr - range.address, count, range.size))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice device)
{
	return device == CU_DEVICE_CPU || device_get(device) ? CUDA_SUCCESS
							     : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult check_location(CUmemLocation location)
{
	switch (location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_get(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static bool names_no_place(CUmem_advise advice)
{
	return advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
	       advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
	       advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
}

/* `placed' is what is to be said of the place that the advice names. */
static CUresult advise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUresult placed)
{
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (placed != CUDA_SUCCESS && !names_no_place(advice))
		return placed;
	return check(ptr, count);
}

CUresult local_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return advise(devPtr, count, advice, check_device(device));
}

CUresult local_cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	return advise(devPtr, count, advice, check_location(location));
}

static CUresult prefetch(CUdeviceptr ptr, size_t count, CUresult placed, CUstream handle)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = placed;
	if (result == CUDA_SUCCESS)
		result = check(ptr, count);
	return result == CUDA_SUCCESS ? stream_resolve(context, handle, &stream) : result;
}

CUresult local_cuMemPrefetchAsync(
	CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return prefetch(devPtr, count, check_device(dstDevice), hStream);
}

CUresult local_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream)
{
	return prefetch(devPtr, count, flags ? CUDA_ERROR_INVALID_VALUE : check_location(location),
		hStream);
}

CUresult local_cuStreamAttachMemAsync(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context, hStream, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags == 0 || (flags & (flags - 1)) || (flags & ~(unsigned)ATTACH_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return check(dptr, length > 0 ? length : 1);
}
