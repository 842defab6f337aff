/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SM_SHARE_H
#define SM_SHARE_H

/*
 * The SMs of a GPU that a session's kernels run on, where that is not all of
 * them. Each GPU is divided once, into the smallest groups that the driver makes.
 * A session gets as many groups as its percentage fills, at least one, and of
 * these the least loaded: no other session's while the shares fit. The sessions
 * of one group of clients share theirs. A context of a client can have a part of the
 * client's share: see context_share.h.
 *
 * A share is a green context. Its CUcontext is current while the worker makes
 * anything for the session: nodes of graphs keep to the SMs of the context that
 * they were made in, whatever stream they are launched into (measured).
 *
 * The session's worker, but for sm_shares_divide().
 */

#include "driver.h"

struct device;
struct green;
struct group;
struct session;

struct sm_share {
	struct sm_share *next;     /* of its GPU */
	const struct group *group; /* of clients; NULL: none */
	uint64_t group_set;        /* what that group has; 0: nothing in common */
	uint64_t set;              /* groups of SMs, a bit each; 0: all SMs */
	struct green *green;       /* one for all shares of the same SMs; NULL: all SMs */
	CUcontext context;
	uint32_t n_sms;
};

/* As the driver is started: how the GPU can be divided. Fails only where another try may not. */
CUresult sm_shares_divide(struct device *device);

/* SMs of the partition that the session has of the GPU; 0: it has none. */
uint32_t sm_share_of_partition(const struct session *session, const struct device *device);

/* Fills a zeroed share. Where it has a green context that is made, for which the session sleeps. */
CUresult sm_share_take(struct session *session, struct device *device, struct sm_share *share);

/*
 * Fills a zeroed share of at most so many groups, one at least, that are among the SMs of another.
 * CUDA_ERROR_NOT_SUPPORTED: the GPU's SMs cannot be divided further.
 */
CUresult sm_share_take_part(struct session *session, struct device *device,
	const struct sm_share *of, uint32_t n_groups, struct sm_share *share);

/* Its SMs are others' again; no work of the session is on them. */
void sm_share_give(const struct device *device, struct sm_share *share, bool device_lost);

#endif
