/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating and destroying contexts, the primary context of each device, and the queries and
 * settings of contexts, with the access to peers. Any thread of the application.
 *
 * Invariant: settings belong to the context and are answered here. They change no
 * other program's answers. The handle of a primary context stays the same over release, reset
 * and the next retain; while it is inactive, it may be current, but cannot be used.
 */

#include <stdatomic.h>

#include "calls_context.h"
#include "context.h"
#include "context_share.h"
#include "lock.h"
#include "share.h"
#include "client/util/log.h"

#define API_VERSION 3020

/* `n_sms': the greatest number of SMs that it may have. */
static CUresult context_create_limited(
	CUcontext *pctx, unsigned int flags, CUdevice dev, uint32_t n_sms)
{
	struct device *device = device_get(dev);
	struct context *context;
	CUresult result;

	if (!pctx || !context_flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	result = device_open(device);
	if (result != CUDA_SUCCESS)
		return result;
	context = context_new(device, dev, false);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->flags = flags;
	result = context_push(context);
	if (result != CUDA_SUCCESS)
		return result;
	result = context_share_begin(context, n_sms);
	if (result != CUDA_SUCCESS) {
		context_pop();
		return result;
	}
	atomic_store_explicit(&context->is_active, 1, memory_order_release);
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_create_limited(pctx, flags, dev, UINT32_MAX);
}

/* Reads the smallest requested number. */
static CUresult read_affinity(
	const CUexecAffinityParam *params, int n, CUdevice ordinal, uint32_t *ret_n_sms)
{
	*ret_n_sms = UINT32_MAX;
	if (n == 0)
		return CUDA_SUCCESS;
	if (n < 0 || !params)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	for (int i = 0; i < n; i++) {
		if (params[i].type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
			return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
		*ret_n_sms = MIN(*ret_n_sms, params[i].param.smCount.val);
	}
	return CUDA_SUCCESS;
}

CUresult local_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
	unsigned int flags, CUdevice dev)
{
	uint32_t n_sms;
	CUresult result = read_affinity(paramsArray, numParams, dev, &n_sms);

	return result == CUDA_SUCCESS ? context_create_limited(pctx, flags, dev, n_sms) : result;
}

CUresult local_cuCtxCreate_v4(
	CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	if (ctxCreateParams && ctxCreateParams->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!ctxCreateParams)
		return local_cuCtxCreate_v2(pctx, flags, dev);
	return local_cuCtxCreate_v3(pctx, ctxCreateParams->execAffinityParams,
		ctxCreateParams->numExecAffinityParams, flags, dev);
}

CUresult local_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	/* An unknown type is not supported. */
	*pi = type == CU_EXEC_AFFINITY_TYPE_SM_COUNT && share_is_per_context() &&
	      device_facts(device_get(dev))->n_sm_groups > 0;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	pExecAffinity->type = type;
	pExecAffinity->param.smCount.val = share_sms(context_current->device);
	return CUDA_SUCCESS;
}

/* CUDA 2 shared a context between parts of a program in this way. */
CUresult local_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct context *context = context_current;

	lock_hold(&context->lock);
	context->n_attached++;
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

/* A primary context survives its last user; it ends only by calls with its device. */
CUresult local_cuCtxDetach(CUcontext ctx)
{
	struct context *context = context_current;
	bool is_last;

	if (context != context_find(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	lock_take(&context->lock);
	is_last = context->n_attached == 0;
	if (!is_last)
		context->n_attached--;
	lock_release(&context->lock);
	return is_last && !context->is_primary ? local_cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
}

CUresult local_cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *context = context_find(ctx);

	if (!context || context->is_primary || context->home)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context_is_active(context))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	context_end(context);
	if (context_current == context)
		context_pop();
	return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext *pctx, struct device *device)
{
	struct context *context = device->primary;
	CUresult result = device_open(device);

	if (result != CUDA_SUCCESS)
		return result;
	lock_hold(&context->lock);
	if (!context->is_active)
		result = context_share_begin(context, UINT32_MAX);
	if (result == CUDA_SUCCESS) {
		context->n_retained++;
		atomic_store_explicit(&context->is_active, 1, memory_order_release);
		*pctx = (CUcontext)context;
	}
	return result;
}

CUresult primary_release(struct device *device)
{
	struct context *context = device->primary;
	CUresult result = CUDA_SUCCESS;
	bool is_last;

	lock_take(&context->lock);
	if (context->n_retained == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		context->n_retained--;
	is_last = result == CUDA_SUCCESS && context->n_retained == 0 && context->is_active;
	lock_release(&context->lock);
	if (is_last)
		context_end(context);
	return result;
}

CUresult local_cuDevicePrimaryCtxReset_v2(struct device *device)
{
	if (context_is_active(device->primary))
		context_end(device->primary);
	return CUDA_SUCCESS;
}

CUresult local_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct context *context = NULL;
	CUresult result = context_named(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!context_is_active(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = API_VERSION;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct context *context = context_current;

	if (leastPriority)
		*leastPriority = context->device->priority_least;
	if (greatestPriority)
		*greatestPriority = context->device->priority_greatest;
	return CUDA_SUCCESS;
}

/*
 * Peer access: where the hardware can, the server maps a program's memory on one GPU for its other
 * GPUs too. Enabling and disabling only change what calls report.
 */

/* The current context, and the other one, which must be active; both may be the same. */
static CUresult p2p_enter(CUcontext handle, struct context **ret_context, struct context **ret_peer)
{
	CUresult result = context_enter(ret_context);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_peer = context_find(handle);
	if (!*ret_peer || !context_is_active(*ret_peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct context *context, *peer;
	CUresult result = p2p_enter(peerContext, &context, &peer);
	uint64_t bit;

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (context->device == peer->device || !device_reaches(context->device, peer->device))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1ull << peer->device->index;
	return atomic_fetch_or_explicit(&context->peers, bit, memory_order_relaxed) & bit
		       ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
		       : CUDA_SUCCESS;
}

CUresult local_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct context *context, *peer;
	CUresult result = p2p_enter(peerContext, &context, &peer);
	uint64_t bit;

	if (result != CUDA_SUCCESS)
		return result;
	bit = 1ull << peer->device->index;
	return atomic_fetch_and_explicit(&context->peers, ~bit, memory_order_relaxed) & bit
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
