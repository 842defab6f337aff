/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernels and functions: queries and changes.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "module.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/stream/context.h"

static int max_dynamic(const struct ptx_kernel_info *info, const struct settings *settings)
{
	return settings->max_dynamic_shared >= 0 ? settings->max_dynamic_shared
						 : SHARED_DEFAULT - (int)info->shared_static;
}

/* These calls distinguish the two kinds of handles; launches do not. */
static bool is_function(CUfunction handle)
{
	return object_find(OBJECT_FUNCTION, handle);
}

/* The context of a function, which need not be current. */
static struct context *context_of(CUfunction handle)
{
	const struct function *function = object_find(OBJECT_FUNCTION, handle);

	return function->module->context;
}

static bool is_kernel(CUkernel handle)
{
	return object_find(OBJECT_KERNEL, handle);
}

static CUresult attribute_get(int *value, CUfunction_attribute attribute, const void *handle)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	unsigned axis;
	CUresult result = function_describe(handle, &info, &settings);

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)info->max_threads;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)info->shared_static;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local_size;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)info->n_regs;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = (int)info->ptx_version;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 90;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)info->const_size;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = max_dynamic(info, settings);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = settings->carveout;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		axis = attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
		*value = info->cluster[0] ? (int)info->cluster[axis] : settings->cluster[axis];
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*value = is_kernel((CUkernel)handle) ? settings->is_non_portable
						     : settings->is_non_portable != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*value = settings->cluster_policy;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult attribute_set(const void *handle, CUfunction_attribute attribute, int value)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(handle, &info, &settings);

	if (result != CUDA_SUCCESS)
		return result;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > SHARED_MAX - (int)info->shared_static)
			return CUDA_ERROR_INVALID_VALUE;
		settings->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		settings->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		if (info->cluster[0])
			return CUDA_ERROR_NOT_PERMITTED;
		if (value < 0)
			return CUDA_ERROR_INVALID_VALUE;
		settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		/* As in driver 580, a kernel keeps the number. */
		settings->is_non_portable = is_kernel((CUkernel)handle) ? value : value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
			return CUDA_ERROR_INVALID_VALUE;
		settings->cluster_policy = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult cache_set(const void *handle, CUfunc_cache config)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(handle, &info, &settings);

	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		settings->cache = config;
	return result;
}

static CUresult param_info(const void *handle, size_t index, size_t *ret_offset, size_t *ret_size)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(handle, &info, &settings);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret_offset || index >= info->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = info->params[index].offset;
	if (ret_size)
		*ret_size = info->params[index].size;
	return CUDA_SUCCESS;
}

static CUresult name_get(const char **name, const void *handle)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result = function_describe(handle, &info, &settings);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*name = info->name;
	return result;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	ENTER(CALL_ALIVE);
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	return is_function(hfunc) ? attribute_get(pi, attrib, hfunc) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	ENTER(CALL_ALIVE);
	return is_function(hfunc) ? attribute_set(hfunc, attrib, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	ENTER(CALL_ALIVE);
	return is_function(hfunc) ? cache_set(hfunc, config) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetParamInfo(
	CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	ENTER(CALL_ALIVE);
	if (!paramOffset || !func)
		return CUDA_ERROR_INVALID_VALUE;
	return is_function(func) ? param_info(func, paramIndex, paramOffset, paramSize)
				 : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	ENTER(CALL_ALIVE);
	if (!hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	return is_function(hfunc) ? name_get(name, hfunc) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct function *function;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!hmod || !hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_function(hfunc))
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_get(hfunc, context_of(hfunc), &function);
	if (result == CUDA_SUCCESS)
		*hmod = (CUmodule)function->module;
	return result;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct function *found;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_function(function))
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_get(function, context_of(function), &found);
	if (result == CUDA_SUCCESS)
		*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return result;
}

CUresult cuFuncLoad(CUfunction function)
{
	struct function *found;

	ENTER(CALL_ALIVE);
	return is_function(function) ? function_get(function, context_of(function), &found)
				     : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return is_kernel(kernel) ? attribute_get(pi, attrib, kernel) : CUDA_ERROR_INVALID_HANDLE;
}

/* The driver loads code for some queries; errors of the code appear later. */
static void load(CUkernel kernel)
{
	struct context *context = context_current();
	struct function *function;

	if (context)
		(void)function_get((CUfunction)kernel, context, &function);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!is_kernel(kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	load(kernel);
	return attribute_set(kernel, attrib, val);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return is_kernel(kernel) ? cache_set(kernel, config) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
	ENTER(CALL_ALIVE);
	if (!hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	return is_kernel(hfunc) ? name_get(name, hfunc) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetParamInfo(
	CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	ENTER(CALL_CONTEXT);
	if (!paramOffset || !kernel)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_kernel(kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	load(kernel);
	return param_info(kernel, paramIndex, paramOffset, paramSize);
}
