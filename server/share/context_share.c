/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shares of SMs for contexts of a client. A worker.
 *
 * Invariant: between two messages no green context of such a share is current on the worker,
 * so it may end at any time.
 */

#include "context_share.h"

#include "green.h"
#include "wire.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "do_share.h"

struct context_share *context_share_ref(struct context_share *share)
{
	share->refs++;
	return share;
}

void context_share_unref(struct context_share *share, bool device_lost)
{
	if (!share || --share->refs > 0)
		return;
	if (!device_lost && share->turns.event)
		cuda.cuEventDestroy_v2(share->turns.event);
	sm_share_give(share->sdev->device, &share->sms, device_lost);
	account_free(share);
}

CUresult context_share_enter(struct session *session, const struct context_share *share)
{
	if (!share)
		return CUDA_SUCCESS;
	session->current = NULL;
	return cuda.cuCtxSetCurrent(share->sms.context);
}

CUresult context_share_leave(struct session *session, const struct context_share *share)
{
	return share ? session_device_enter(session, share->sdev) : CUDA_SUCCESS;
}

/* Those that still have an ID. */
static void context_shares_free(struct session *session, bool device_lost)
{
	for (uint32_t id = 0; id < WIRE_CONTEXT_SHARES_MAX; id++)
		context_share_unref(handle_remove(&session->context_shares, id), device_lost);
}

CUresult do_context_share_create(struct session *session, uint32_t id, uint32_t device,
	uint32_t n_groups, uint32_t *ret_n_sms)
{
	struct context_share *share;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (handle_get(&session->context_shares, id))
		return CUDA_ERROR_INVALID_VALUE;
	share = account_alloc(session->account, sizeof(*share), KEPT_GREEN + KEPT_EVENT);
	if (!share)
		return CUDA_ERROR_OUT_OF_MEMORY;
	share->id = id;
	share->refs = 1;
	share->sdev = sdev;
	result = sm_share_take_part(session, sdev->device, &sdev->share, n_groups, &share->sms);
	if (result == CUDA_SUCCESS && handle_put(&session->context_shares, id, share) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		*ret_n_sms = share->sms.n_sms;
	else
		context_share_unref(share, result_is_fault(result));
	return result;
}

CUresult do_context_share_destroy(struct session *session, struct context_share *share)
{
	handle_remove(&session->context_shares, share->id);
	context_share_unref(share, false);
	return CUDA_SUCCESS;
}

const struct session_part context_shares_part = {
	.end = context_shares_free,
	.is_recorded = true,
};
