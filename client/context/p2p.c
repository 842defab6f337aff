/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Peer access between GPUs. Any thread of the application.
 *
 * Invariant: where the hardware can, the server maps a program's memory on one GPU
 * for its other GPUs too. Enabling and disabling only change what calls report.
 */

#include <stdatomic.h>

#include "client.h"
#include "context.h"
#include "device.h"

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
