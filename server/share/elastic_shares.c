/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The shares of background sessions. A worker.
 *
 * Invariant: `n' counts complete shares only, and the session's own SMs behind them.
 */

#include "elastic_shares.h"

#include "session_device.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device.h"

static void log_lack(const struct session *session, const struct device *device)
{
	log_line("Client " SESSION_NAME ": device %u has no memory for its shares of SMs: this "
		 "background client may slow down others",
		SESSION_NAME_ARGS(session), device->ordinal);
}

void elastic_shares_take(struct session *session, struct session_device *sdev)
{
	struct elastic_shares *elastic = &sdev->elastic;
	unsigned n = elastic_sizes(sdev->device, elastic->groups), i;
	unsigned own = sdev->share.set ? (unsigned)__builtin_popcountll(sdev->share.set)
				       : elastic_groups_all(sdev->device);

	if (session->limits.priority < PRIORITY_BACKGROUND ||
		sm_share_is_partitioned(session, sdev->device) || n == 0)
		return;
	for (i = 0; i + 1 < n && elastic->groups[i] < own; i++) {
		CUresult result = sm_share_take_elastic(session, sdev->device, &sdev->share,
			elastic->groups[i], &elastic->shares[i]);

		if (result != CUDA_SUCCESS) {
			log_lack(session, sdev->device);
			elastic_shares_give(sdev, result_is_fault(result));
			return;
		}
		elastic->n = i + 1;
	}
	elastic->groups[i] = own;
	elastic->n = i + 1;
}

void elastic_shares_give(struct session_device *sdev, bool device_lost)
{
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++)
		sm_share_give(sdev->device, &sdev->elastic.shares[i], device_lost);
	sdev->elastic.n = 0;
}

unsigned elastic_shares_find(const struct elastic_shares *elastic, unsigned groups)
{
	unsigned found = elastic->n - 1;

	while (found > 0 && elastic->groups[found] > groups)
		found--;
	return found;
}

CUresult elastic_shares_enter(
	struct session *session, const struct session_device *sdev, unsigned share)
{
	session->current = NULL;
	return cuda.cuCtxSetCurrent(sdev->elastic.shares[share].context);
}
