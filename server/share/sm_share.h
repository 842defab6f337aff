/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SM_SHARE_H
#define SM_SHARE_H

/*
 * The SMs of a GPU on which a session's kernels run, if these are not all SMs. Each GPU is
 * divided once, into the smallest groups that the driver makes. A session gets as many
 * groups as its percentage fills, at least one. It gets the least loaded groups, which no
 * other session has while the shares fit. The sessions of one group of clients share theirs.
 * A context of a client can have a part of the client's share: see context_share.h.
 *
 * A share is a green context. Its CUcontext is current while the worker makes anything for
 * the session, because nodes of graphs keep to the SMs of the context in which they were
 * made, whatever stream they are launched into (measured).
 *
 * The session's worker.
 */

#include "server/driver/driver.h"

struct device;
struct green;
struct group;
struct session;

struct sm_share {
	struct sm_share *next;     /* of its GPU */
	const struct group *group; /* group of clients; NULL: none */
	uint64_t group_set;        /* SMs of that group; 0: nothing in common */
	uint64_t set;        /* one bit per group of SMs, then the remaining ones; 0: all SMs */
	struct green *green; /* one for all shares with the same SMs; NULL: all SMs */
	CUcontext context;
	uint32_t n_sms;
	bool is_elastic; /* one of several shares that a background session changes between */
};

/* Whether the session has no SMs of the GPU but those of a partition. */
bool sm_share_is_partitioned(const struct session *session, const struct device *device);

/* The number of SMs in the session's partition of the GPU; 0: it has no partition. */
uint32_t sm_share_of_partition(const struct session *session, const struct device *device);

/* Fills a zeroed share. Sleeps if a green context has to be made. */
CUresult sm_share_take(struct session *session, struct device *device, struct sm_share *share);

/*
 * Fills a zeroed share of at most `n_groups' groups, at least one, among the SMs of `of'.
 * CUDA_ERROR_NOT_SUPPORTED: the GPU's SMs cannot be divided further.
 */
CUresult sm_share_take_part(struct session *session, struct device *device,
	const struct sm_share *of, uint32_t n_groups, struct sm_share *share);

/*
 * Fills a zeroed share with the first `n_groups' groups of `of'. So all background sessions that
 * may use the whole GPU leave the same groups to the foreground.
 */
CUresult sm_share_take_elastic(struct session *session, struct device *device,
	const struct sm_share *of, uint32_t n_groups, struct sm_share *share);

/* Gives the SMs back; no work of the session is on them. */
void sm_share_give(const struct device *device, struct sm_share *share, bool device_lost);

#endif
