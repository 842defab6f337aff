/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels: found by name, queried for attributes, resolved on a GPU. A worker.
 *
 * Invariant: a device_kernel contains the driver's answers after the last change of an
 * attribute.
 */

#include "kernel.h"

#include <stdio.h>
#include <string.h>

#include "library.h"
#include "library_load.h"
#include "machine_code.h"
#include "managed.h"
#include "messages.h"
#include "placement.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/cu_limit.h"
#include "server/share/session_device.h"
#include "server/memory/space.h"
#include "do_module.h"

_Static_assert(CU_FUNC_ATTRIBUTE_MAX == 16, "attributes[16] in cuda.spec");

/* Reads the limits against which launches are checked. */
static CUresult kernel_read_limits(const struct session_device *sdev, struct device_kernel *found)
{
	int threads = 0, shared = 0, clustered = 0, width = 0, local = 0;
	const struct {
		CUfunction_attribute name;
		int *value;
	} limits[] = {
		{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads},
		{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &shared},
		{CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &clustered},
		{CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &width},
		{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
	};
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < ARRAY_SIZE(limits) && result == CUDA_SUCCESS; i++)
		result = cuda.cuKernelGetAttribute(
			limits[i].value, limits[i].name, found->real, sdev->device->handle);
	found->local_bytes = (uint32_t)MAX(local, 0);
	found->is_clustered = clustered != 0 || width != 0;
	found->threads_max = (uint32_t)MAX(threads, 0);
	found->dynamic_shared_max = (uint32_t)MAX(shared, 0);
	return result;
}

/* Reads the first `n_max' parameters, and the bytes of all parameters. */
static CUresult read_params(struct kernel *kernel, const struct device_kernel *found,
	struct param_layout *params, uint32_t n_max, uint32_t *ret_n)
{
	uint32_t n;

	for (n = 0; n < n_max; n++) {
		size_t offset = 0, size = 0;
		CUresult result = cuda.cuKernelGetParamInfo(found->real, n, &offset, &size);

		/* There are no more parameters. Any other failure leaves that open. */
		if (result == CUDA_ERROR_INVALID_VALUE)
			break;
		if (result != CUDA_SUCCESS)
			return result;
		if (params)
			params[n] = (struct param_layout){(uint16_t)offset, (uint16_t)size};
		kernel->param_bytes = MAX(kernel->param_bytes, (uint32_t)(offset + size));
	}
	kernel->is_measured = true;
	*ret_n = n;
	return CUDA_SUCCESS;
}

/*
 * The kernel in the code that is used on that GPU, where its variables are placed now. Before the
 * code is loaded there.
 */
static CUresult kernel_real(struct session *session, struct kernel *kernel,
	struct session_device *own, CUkernel *ret_real)
{
	const struct placement *placement;
	const char *name = NULL;
	CUresult result = placement_get(session, kernel->library, own, &placement);

	*ret_real = kernel->real;
	if (result != CUDA_SUCCESS || !placement)
		return result;
	result = cuda.cuKernelGetName(&name, kernel->real);
	return result == CUDA_SUCCESS
		       ? cuda.cuLibraryGetKernel(ret_real, placement->deferred.library, name)
		       : result;
}

static CUresult load_function(struct session *session, struct kernel *kernel,
	struct session_device *own, struct device_kernel *found, CUfunction *ret_function)
{
	unsigned round = 0;
	CUresult result =
		found->real ? CUDA_SUCCESS : kernel_real(session, kernel, own, &found->real);

	if (result != CUDA_SUCCESS)
		return result;
	do {
		if (!library_load_begin(session, kernel->library, own->device))
			return CUDA_ERROR_MPS_RPC_FAILURE;
		result = cuda.cuKernelGetFunction(ret_function, found->real);
		library_load_end(kernel->library, own->device, result);
	} while (space_make_for_driver(session, own, result, round++));
	return result;
}

/* Before the first launch: what its parameters are, and what it can do. */
static CUresult kernel_measure(struct kernel *kernel, const struct device_kernel *found)
{
	unsigned abilities;
	uint32_t n;
	CUresult result = read_params(kernel, found, NULL, WIRE_PARAMS_COUNT_MAX, &n);

	if (result != CUDA_SUCCESS)
		return result;
	kernel->n_params = n;
	abilities = image_abilities(kernel->library->deferred.image, kernel->library);
	kernel->prints = abilities & IMAGE_PRINTS;
	kernel->is_parent = abilities & IMAGE_LAUNCHES;
	return CUDA_SUCCESS;
}

/* Not inline, so that kernel_find() stays short. */
static __attribute__((noinline)) CUresult kernel_load(
	struct session *session, struct kernel *kernel, const struct session_device *sdev)
{
	struct session_device *own = session_device_get(session, sdev->device->ordinal);
	struct device_kernel *found = &kernel->on_devices[sdev->device->ordinal];
	CUfunction function = NULL;
	CUresult result;

	result = library_charge(
		session, kernel->library, managed_size(kernel->library->managed), own);
	if (result != CUDA_SUCCESS)
		return result;
	do
		result = load_function(session, kernel, own, found, &function);
	while (placement_refuse(session, kernel->library, own, result));
	if (result == CUDA_SUCCESS)
		result = kernel_read_limits(sdev, found);
	if (result != CUDA_SUCCESS) {
		library_log_refusal(session, kernel->library, result);
		return result;
	}
	if (!kernel->is_measured) {
		result = kernel_measure(kernel, found);
		if (result != CUDA_SUCCESS)
			return result;
	}
	found->function = function;
	return CUDA_SUCCESS;
}

CUresult kernel_find(struct session *session, struct kernel *kernel,
	const struct session_device *sdev, const struct device_kernel **ret_found)
{
	struct device_kernel *found = &kernel->on_devices[sdev->device->ordinal];

	if (unlikely(!found->function)) {
		CUresult result = kernel_load(session, kernel, sdev);

		if (result != CUDA_SUCCESS)
			return result;
	}
	*ret_found = found;
	return CUDA_SUCCESS;
}

CUresult kernel_make_ready(
	struct session *session, struct kernel *kernel, const struct session_device *sdev)
{
	struct device_kernel *found = &kernel->on_devices[sdev->device->ordinal];
	CUresult result = cu_limit_cover_local(session, sdev->device, found->local_bytes);

	found->is_ready = result == CUDA_SUCCESS;
	kernel->library->is_used = true;
	return result;
}

static void kernel_forget(struct kernel *kernel)
{
	memset(kernel->on_devices, 0, devices_count() * sizeof(kernel->on_devices[0]));
}

void kernel_replace(struct kernel *kernel)
{
	kernel->real = kernel->next_real;
	kernel_forget(kernel);
}

void kernels_forget(struct library *library)
{
	for (struct kernel *kernel = library->kernels; kernel; kernel = kernel->next)
		kernel_forget(kernel);
}

CUresult kernel_point(const struct kernel *kernel, const struct device_kernel *found,
	const void *params, void **pointers)
{
	for (uint32_t i = 0; i < kernel->n_params; i++) {
		size_t offset = 0, size = 0;
		CUresult result = cuda.cuKernelGetParamInfo(found->real, i, &offset, &size);

		if (result != CUDA_SUCCESS)
			return result;
		pointers[i] = (char *)(uintptr_t)params + offset;
	}
	return CUDA_SUCCESS;
}

/* Any GPU of the session: a kernel's parameters and most attributes are the same on each. */
static struct session_device *any_session_device(struct session *session)
{
	if (session->current)
		return session->current;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i])
			return session->devices[i];
	return NULL;
}

static CUresult kernel_new(struct session *session, struct library *library, uint32_t id,
	CUkernel real, const char *name, struct kernel **ret_kernel)
{
	struct kernel *kernel;
	CUresult result;

	/* The driver keeps it until the library is unloaded, so the library pays for it. */
	if (!account_keep(library, KEPT_KERNEL))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = session_object_new(&session->kernels, id,
		sizeof(*kernel) + devices_count() * sizeof(struct device_kernel), 0, &kernel);
	if (result != CUDA_SUCCESS) {
		account_unkeep(library, KEPT_KERNEL);
		return result;
	}
	kernel->id = id;
	kernel->real = real;
	snprintf(kernel->name, sizeof(kernel->name), "%s", name);
	kernel->library = library;
	LIST_PUSH(library->kernels, kernel);
	*ret_kernel = kernel;
	return CUDA_SUCCESS;
}

CUresult do_library_kernel(struct session *session, struct library *library, uint32_t id,
	const char *name, int32_t attributes[16])
{
	struct session_device *sdev = any_session_device(session);
	struct kernel *kernel;
	CUkernel real = NULL;
	CUresult result;

	if (!sdev)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = session_device_enter(session, sdev);
	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernel(&real, library->deferred.library, name);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND)
		library_log_refusal(session, library, result);
	if (result == CUDA_SUCCESS)
		result = kernel_new(session, library, id, real, name, &kernel);
	if (result != CUDA_SUCCESS)
		return result;
	for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++) {
		int value = 0;

		result = cuda.cuKernelGetAttribute(
			&value, (CUfunction_attribute)i, real, sdev->device->handle);
		if (result_is_fault(result))
			return result;
		attributes[i] = value;
	}
	return CUDA_SUCCESS;
}

CUresult do_kernel_params(struct session *session, struct kernel *kernel, uint32_t *ret_param_bytes,
	uint32_t *ret_prints, struct param_layout *params, uint32_t n_params_max,
	uint32_t *ret_n_params)
{
	struct session_device *sdev = any_session_device(session);
	const struct device_kernel *found;
	CUresult result;

	if (!sdev)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = session_device_enter(session, sdev);
	/* An error in the code appears here, as at a launch. */
	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, sdev, &found);
	if (result != CUDA_SUCCESS)
		return result;
	result = read_params(kernel, found, params, n_params_max, ret_n_params);
	/*
	 * The driver marks the end of the list with an error that can have another cause. A kernel
	 * with too few parameters would write to invalid addresses and end every session.
	 */
	if (result == CUDA_SUCCESS && *ret_n_params != kernel->n_params) {
		kernel->n_params = *ret_n_params;
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result != CUDA_SUCCESS)
		return result;
	*ret_param_bytes = kernel->param_bytes;
	*ret_prints = kernel->prints;
	return CUDA_SUCCESS;
}

/* The call loads the code. */
static CUresult set_before_loading(struct session *session, struct kernel *kernel,
	struct session_device *own, CUfunction_attribute name, int32_t value)
{
	struct device_kernel *found = &kernel->on_devices[own->device->ordinal];
	CUresult result =
		found->real ? CUDA_SUCCESS : kernel_real(session, kernel, own, &found->real);

	if (result != CUDA_SUCCESS)
		return result;
	if (!library_load_begin(session, kernel->library, own->device))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = cuda.cuKernelSetAttribute(name, value, found->real, own->device->handle);
	library_load_end(kernel->library, own->device, result);
	return result;
}

CUresult do_kernel_set_attribute(struct session *session, struct kernel *kernel, uint32_t device,
	uint32_t attribute, int32_t value)
{
	CUfunction_attribute name = (CUfunction_attribute)attribute;
	struct device_kernel *found;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	kernel->library->is_used = true;
	found = &kernel->on_devices[device];
	if (!found->function)
		return set_before_loading(session, kernel, sdev, name, value);
	result = cuda.cuKernelSetAttribute(name, value, found->real, sdev->device->handle);
	/* A function that this context already has keeps its own attributes. */
	if (result == CUDA_SUCCESS)
		result = cuda.cuFuncSetAttribute(found->function, name, value);
	return result == CUDA_SUCCESS ? kernel_read_limits(sdev, found) : result;
}

CUresult do_kernel_occupancy(struct session *session, struct kernel *kernel, uint32_t device,
	int32_t block_size, uint64_t shared_bytes, uint32_t flags, int32_t *ret_blocks)
{
	const struct device_kernel *found;
	struct session_device *sdev;
	int blocks = 0;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, sdev, &found);
	if (result == CUDA_SUCCESS)
		result = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&blocks, found->function, block_size, shared_bytes, flags);
	*ret_blocks = blocks;
	return result;
}

CUresult do_kernel_clusters(struct session *session, struct kernel *kernel,
	const struct msg_kernel_clusters *msg, int32_t *ret_value)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		.value.clusterDim = {msg->cluster[0], msg->cluster[1], msg->cluster[2]},
	};
	/* All 0: the kernel's own size. */
	CUlaunchConfig config = {msg->grid[0], msg->grid[1], msg->grid[2], msg->block[0],
		msg->block[1], msg->block[2], msg->shared_bytes, NULL, &attribute,
		msg->cluster[0] && msg->cluster[1] && msg->cluster[2]};
	const struct device_kernel *found;
	struct session_device *sdev;
	int value = 0;
	CUresult result = session_device_get_entered(session, msg->device, &sdev);

	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, sdev, &found);
	if (result != CUDA_SUCCESS)
		return result;
	result = msg->largest
			 ? cuda.cuOccupancyMaxPotentialClusterSize(&value, found->function, &config)
			 : cuda.cuOccupancyMaxActiveClusters(&value, found->function, &config);
	*ret_value = value;
	return result;
}

CUresult do_kernel_available_shared(struct session *session, struct kernel *kernel, uint32_t device,
	uint32_t blocks, uint32_t block_size, uint64_t *ret_bytes)
{
	const struct device_kernel *found;
	struct session_device *sdev;
	size_t bytes = 0;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, sdev, &found);
	if (result == CUDA_SUCCESS)
		result = cuda.cuOccupancyAvailableDynamicSMemPerBlock(
			&bytes, found->function, (int)blocks, (int)block_size);
	*ret_bytes = bytes;
	return result;
}
