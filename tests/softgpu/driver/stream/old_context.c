/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls of old programs with contexts: how often one is attached, and the width of the
 * banks of shared memory, which no GPU of today lets a program choose.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "context.h"
#include "current.h"
#include "tests/softgpu/driver/module/module.h"

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	ENTER(CALL_CONTEXT);
	if (!pctx || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	context_current()->n_attached++;
	*pctx = (CUcontext)context_current();
	return CUDA_SUCCESS;
}

static CUresult detach(CUcontext ctx, bool *ret_is_last)
{
	struct context *context;

	ENTER(CALL_CONTEXT);
	if (!ctx || context_get(ctx, &context) != CUDA_SUCCESS || context != context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_is_last = context->n_attached == 0 && !context->is_primary;
	if (context->n_attached > 0)
		context->n_attached--;
	return CUDA_SUCCESS;
}

/* The last user of a context destroys it. A primary context ends by calls with its device. */
CUresult cuCtxDetach(CUcontext ctx)
{
	bool is_last = false;
	CUresult result = detach(ctx, &is_last);

	return result == CUDA_SUCCESS && is_last ? cuCtxDestroy_v2(ctx) : result;
}

static CUresult config_check(CUsharedconfig config)
{
	return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	ENTER(CALL_CONTEXT);
	if (!pConfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	ENTER(CALL_CONTEXT);
	return config_check(config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	const struct ptx_kernel_info *info;
	struct settings *settings;
	CUresult result;

	ENTER(CALL_ALIVE);
	result = function_describe(hfunc, &info, &settings);
	return result == CUDA_SUCCESS ? config_check(config) : result;
}
