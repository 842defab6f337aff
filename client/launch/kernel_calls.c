/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's calls about kernels and functions. Any thread of the application.
 *
 * Invariant: none of these calls accepts a CUkernel for a CUfunction or the
 * reverse, as in the driver; launches and occupancy do.
 */

#include "client.h"
#include "occupancy.h"
#include "send.h"

static CUresult kernel_attribute(int *pi, CUfunction_attribute attrib, const struct kernel *kernel)
{
	if (!pi || (unsigned)attrib >= KERNEL_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*pi = kernel->attributes[attrib];
	return CUDA_SUCCESS;
}

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

/* A function knows only whether larger clusters are allowed; a kernel keeps the number. */
static int function_value(CUfunction_attribute attrib, int value)
{
	return attrib == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED ? value != 0 : value;
}

static CUresult kernel_param(
	struct kernel *kernel, size_t index, size_t *ret_offset, size_t *ret_size)
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

/* A cache preference, which the GPU may ignore. */
static CUresult cache_config(CUfunc_cache config)
{
	return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS
							      : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuKernelGetFunction(CUfunction *pFunc, struct kernel *found)
{
	*pFunc = kernel_function(found);
	return CUDA_SUCCESS;
}

CUresult local_cuKernelGetLibrary(CUlibrary *pLib, struct kernel *found)
{
	*pLib = (CUlibrary)found->library;
	return CUDA_SUCCESS;
}

CUresult local_cuKernelGetAttribute(
	int *pi, CUfunction_attribute attrib, CUkernel kernel, struct device *device)
{
	const struct kernel *found = kernel_find_kernel(kernel);

	(void)device;
	return found ? kernel_attribute(pi, attrib, found) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult local_cuKernelSetAttribute(
	CUfunction_attribute attrib, int val, CUkernel kernel, struct device *device)
{
	CUresult result = device_open(device);

	if (result != CUDA_SUCCESS)
		return result;
	return kernel_set_attribute(kernel_find_kernel(kernel), device, attrib, val);
}

CUresult local_cuKernelSetCacheConfig(
	struct kernel *kernel, CUfunc_cache config, struct device *device)
{
	(void)kernel, (void)device;
	return cache_config(config);
}

CUresult local_cuKernelGetName(const char **name, struct kernel *kernel)
{
	*name = kernel->name;
	return CUDA_SUCCESS;
}

CUresult local_cuKernelGetParamInfo(
	struct kernel *kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	return kernel_param(kernel, paramIndex, paramOffset, paramSize);
}

CUresult local_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, struct kernel *kernel)
{
	CUresult result = kernel_attribute(pi, attrib, kernel);

	if (result == CUDA_SUCCESS)
		*pi = function_value(attrib, *pi);
	return result;
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
	return kernel_set_attribute(kernel, context->device, attrib, function_value(attrib, value));
}

CUresult local_cuFuncSetCacheConfig(struct kernel *kernel, CUfunc_cache config)
{
	(void)kernel;
	return cache_config(config);
}

CUresult local_cuFuncSetSharedMemConfig(struct kernel *kernel, CUsharedconfig config)
{
	(void)kernel;
	return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuFuncGetModule(CUmodule *hmod, struct kernel *kernel)
{
	*hmod = (CUmodule)kernel->library;
	return CUDA_SUCCESS;
}

CUresult local_cuFuncGetName(const char **name, struct kernel *kernel)
{
	*name = kernel->name;
	return CUDA_SUCCESS;
}

CUresult local_cuFuncGetParamInfo(
	struct kernel *kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	return kernel_param(kernel, paramIndex, paramOffset, paramSize);
}

/* The server has loaded the function before it could report its attributes. */
CUresult local_cuFuncIsLoaded(CUfunctionLoadingState *state, struct kernel *kernel)
{
	(void)kernel;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult local_cuFuncLoad(struct kernel *kernel)
{
	/* Asking for the parameters makes the server's driver load the function. */
	return kernel_measure(kernel);
}
