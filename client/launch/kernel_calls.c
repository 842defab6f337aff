/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's calls about kernels and functions. Any thread of the application.
 *
 * Invariant: none of these calls accepts a CUkernel for a CUfunction or the
 * reverse, as in the driver; launches and occupancy do.
 */

#include "calls_launch.h"
#include "launch.h"
#include "occupancy.h"
#include "send_launch.h"

/* The attributes that can be set. The server's driver checks the values. */
static bool is_settable(CUfunction_attribute attrib)
{
	return attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
	       attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
	       (attrib >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
		       (unsigned)attrib < KERNEL_ATTRIBUTES);
}

static CUresult kernel_set_attribute(
	struct kernel *kernel, const struct device *device, CUfunction_attribute attrib, int value)
{
	CUresult result;

	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!is_settable(attrib))
		return CUDA_ERROR_INVALID_VALUE;
	result = send_kernel_set_attribute(
		kernel_id(kernel), device->index, (uint32_t)attrib, value);
	if (result == CUDA_SUCCESS)
		kernel->attributes[attrib] = value;
	occupancy_forget(kernel);
	return result;
}

int kernel_function_value(CUfunction_attribute attrib, int value)
{
	return attrib == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED ? value != 0 : value;
}

CUresult kernel_param(struct kernel *kernel, size_t index, size_t *ret_offset, size_t *ret_size)
{
	CUresult result = kernel_measure(kernel);

	if (result != CUDA_SUCCESS)
		return result;
	if (index >= kernel->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = kernel->params[index].offset;
	if (ret_size)
		*ret_size = kernel->params[index].size;
	return CUDA_SUCCESS;
}

CUresult local_cuKernelSetAttribute(
	CUfunction_attribute attrib, int val, CUkernel kernel, struct device *device)
{
	CUresult result = device_open(device);

	if (result != CUDA_SUCCESS)
		return result;
	return kernel_set_attribute(kernel_find_kernel(kernel), device, attrib, val);
}

CUresult local_cuFuncSetAttribute(struct kernel *kernel, CUfunction_attribute attrib, int value)
{
	struct context *context;
	CUresult result;

	context = kernel->library->context;
	/* The function may be that of a library's kernel, in the context that is current. */
	result = context ? CUDA_SUCCESS : context_enter(&context);
	if (result != CUDA_SUCCESS)
		return result;
	return kernel_set_attribute(
		kernel, context->device, attrib, kernel_function_value(attrib, value));
}
