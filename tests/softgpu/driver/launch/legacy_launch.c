/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches as before CUDA 4: shape, shared memory and arguments are set one by one.
 * PyCUDA makes all launches so.
 *
 * Runs in any thread, under the driver's lock. A function has settings from the first
 * such call on, until its module is freed.
 */

#include "legacy_launch.h"

#include <string.h>

#include "launch.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/driver/stream/context.h"

#define BLOCK_THREADS_MAX 1024
#define BLOCK_Z_MAX 64

/* The settings of a function of the current context. */
static CUresult legacy_get(CUfunction handle, struct legacy_launch **ret_legacy)
{
	struct function *function;
	CUresult result = function_get(handle, context_current(), &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!function->legacy) {
		function->legacy = calloc(1, sizeof(*function->legacy));
		if (!function->legacy)
			return CUDA_ERROR_OUT_OF_MEMORY;
		for (unsigned i = 0; i < 3; i++)
			function->legacy->block[i] = 1;
	}
	*ret_legacy = function->legacy;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct legacy_launch *legacy;
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = legacy_get(hfunc, &legacy);
	if (result != CUDA_SUCCESS)
		return result;
	if (x <= 0 || y <= 0 || z <= 0 || x > BLOCK_THREADS_MAX || y > BLOCK_THREADS_MAX ||
		z > BLOCK_Z_MAX || (int64_t)x * y * z > BLOCK_THREADS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	legacy->block[0] = (uint32_t)x;
	legacy->block[1] = (uint32_t)y;
	legacy->block[2] = (uint32_t)z;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct legacy_launch *legacy;
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = legacy_get(hfunc, &legacy);
	if (result != CUDA_SUCCESS)
		return result;
	if (bytes > SHARED_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	legacy->shared = bytes;
	return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct legacy_launch *legacy;
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = legacy_get(hfunc, &legacy);
	if (result != CUDA_SUCCESS)
		return result;
	if (numbytes > LEGACY_PARAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	legacy->size = numbytes;
	return CUDA_SUCCESS;
}

static CUresult param_set(CUfunction hfunc, int offset, const void *value, size_t size)
{
	struct legacy_launch *legacy;
	CUresult result = legacy_get(hfunc, &legacy);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || offset < 0 || !range_ok((uint64_t)offset, size, LEGACY_PARAMS_MAX))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(legacy->params + offset, value, size);
	return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	ENTER(CALL_CONTEXT);
	return param_set(hfunc, offset, ptr, numbytes);
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	ENTER(CALL_CONTEXT);
	return param_set(hfunc, offset, &value, sizeof(value));
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
	ENTER(CALL_CONTEXT);
	return param_set(hfunc, offset, &value, sizeof(value));
}

static CUresult legacy_push(CUfunction function, int width, int height, CUstream stream)
{
	struct legacy_launch *legacy;
	CUresult result = legacy_get(function, &legacy);
	struct launch launch = {.function = function, .grid = {0, 0, 1}};

	if (result != CUDA_SUCCESS)
		return result;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	launch.grid[0] = (uint32_t)width;
	launch.grid[1] = (uint32_t)height;
	memcpy(launch.block, legacy->block, sizeof(launch.block));
	launch.shared_dynamic = legacy->shared;
	launch.extra = (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, legacy->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &legacy->size, CU_LAUNCH_PARAM_END};
	return launch_push(&launch, stream);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	ENTER(CALL_CONTEXT);
	return legacy_push(f, grid_width, grid_height, hStream);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	ENTER(CALL_CONTEXT);
	return legacy_push(f, grid_width, grid_height, CU_STREAM_LEGACY);
}

CUresult cuLaunch(CUfunction f)
{
	ENTER(CALL_CONTEXT);
	return legacy_push(f, 1, 1, CU_STREAM_LEGACY);
}
