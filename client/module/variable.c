/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables of libraries. Those of __managed__ are placed in pinned memory, for which the
 * server loads their library again before anything in it was used. Any thread of the application.
 *
 * Invariant: if the program has asked for a __managed__ variable, the library's
 * variables are placed, or none of its kernels can be launched.
 */

#include "variable.h"

#include <stdatomic.h>
#include <string.h>

#include "calls_module.h"
#include "lock.h"
#include "client/util/log.h"
#include "client/stream/stream.h"
#include "client/memory/managed.h"
#include "send_module.h"

/*
 * Places all variables, with their initial values as in a program's own memory.
 * Under the library's lock.
 */
static CUresult managed_place_in(struct library *library, struct memory_range *range)
{
	uint32_t device = range->context->device->index;
	CUresult result;

	result = managed_new(range);
	if (result != CUDA_SUCCESS)
		return result;
	memset((void *)(uintptr_t)range->address, 0, range->size);
	result = send_managed_bind(library_id(library), device, range->address);
	if (result != CUDA_SUCCESS) {
		memory_end_owner(library);
		return result;
	}
	library->managed_device = device;
	library->managed = range->address;
	return CUDA_SUCCESS;
}

/* The runtime asks before it has a context; the first GPU is as good as any. */
static CUresult managed_find_context(struct context **ret_context)
{
	CUresult result = context_enter(ret_context);
	const struct device *device = device_get(0);

	if (result != CUDA_ERROR_INVALID_CONTEXT)
		return result;
	if (!device)
		return CUDA_ERROR_NO_DEVICE;
	*ret_context = device->primary;
	return device_open(device->primary->device);
}

static CUresult managed_place_all(struct library *library)
{
	struct memory_range range = {
		.flags = CU_MEM_ATTACH_GLOBAL,
		.owner = library,
	};
	CUresult result = managed_find_context(&range.context);

	if (result != CUDA_SUCCESS || library->managed)
		return result;
	result = send_managed_measure(
		library_id(library), range.context->device->index, &range.size);
	if (result == CUDA_SUCCESS)
		result = managed_place_in(library, &range);
	return result;
}

static void log_managed_refusal(const char *name, CUresult result)
{
	log_error("cannot place the __managed__ variable %s in memory that this process can access "
		  "(error %d; server.log may say more): get the address of the variables before a "
		  "kernel of the image runs, or use cudaMallocManaged() instead",
		name, (int)result);
}

static CUresult managed_variables_place(struct library *library)
{
	lock_hold(&library->lock);
	return managed_place_all(library);
}

static bool are_placed(struct library *library)
{
	lock_hold(&library->lock);
	return library->managed != 0;
}

static CUresult managed_variable_find(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	uint64_t address, size;
	CUresult result = are_placed(library)
				  ? send_managed_find(library_id(library), name, &address, &size)
				  : CUDA_ERROR_NOT_FOUND;

	if (result != CUDA_SUCCESS)
		return result;
	if (ret_address)
		*ret_address = address;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

static CUresult managed_variables_refuse(struct library *library, const char *name, CUresult result)
{
	log_managed_refusal(name, result);
	atomic_store_explicit(&library->is_refused, 1, memory_order_relaxed);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult global_ask(const struct library *library, struct context *context, const char *name,
	CUdeviceptr *ret_address, size_t *ret_size)
{
	uint64_t address, size;
	CUresult result = send_library_global(
		library_id(library), context->device->index, name, &address, &size);

	if (result == CUDA_SUCCESS)
		result = memory_add_variable(context, library, address, size);
	if (result != CUDA_SUCCESS)
		return result;
	if (ret_address)
		*ret_address = address;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

/* The library has __managed__ variables, which must be placed first. */
static CUresult global_ask_placed(struct library *library, struct context *context,
	const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	CUresult placed = managed_variables_place(library), result = CUDA_ERROR_NOT_FOUND;

	if (placed == CUDA_SUCCESS)
		result = managed_variable_find(library, name, ret_address, ret_size);
	if (result == CUDA_ERROR_NOT_FOUND)
		result = global_ask(library, context, name, ret_address, ret_size);
	return result == CUDA_ERROR_NOT_SUPPORTED ? managed_variables_refuse(library, name, placed)
						  : result;
}

CUresult library_global(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	struct context *context = library->context;
	CUresult result = context ? context_check() : context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = managed_variable_find(library, name, ret_address, ret_size);
	if (result == CUDA_ERROR_NOT_FOUND)
		result = global_ask(library, context, name, ret_address, ret_size);
	return result == CUDA_ERROR_NOT_SUPPORTED
		       ? global_ask_placed(library, context, name, ret_address, ret_size)
		       : result;
}

void variables_end(const struct library *library)
{
	if (library->managed)
		(void)streams_wait_device(library->managed_device);
}

/* The variables cannot be placed: matters only if one of them has that name. */
static CUresult managed_not_placed(struct library *library, const char *name, CUresult placed)
{
	struct context *context;
	uint64_t address, size;
	CUresult result = managed_find_context(&context);

	if (result == CUDA_SUCCESS)
		result = send_library_global(
			library_id(library), context->device->index, name, &address, &size);
	if (result == CUDA_SUCCESS)
		return CUDA_ERROR_NOT_FOUND; /* a plain variable */
	return result == CUDA_ERROR_NOT_SUPPORTED ? managed_variables_refuse(library, name, placed)
						  : result;
}

/* When the runtime has loaded an image, it asks for each such variable. */
CUresult local_cuLibraryGetManaged(
	CUdeviceptr *dptr, size_t *bytes, struct library *found, const char *name)
{
	CUresult result = managed_variables_place(found);

	if (result == CUDA_SUCCESS)
		return managed_variable_find(found, name, dptr, bytes);
	return result == CUDA_ERROR_NOT_FOUND ? result : managed_not_placed(found, name, result);
}
