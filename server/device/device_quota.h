/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_QUOTA_H
#define DEVICE_QUOTA_H

/*
 * How much of a GPU's memory a session may have, and how much it has. Each GPU that the session
 * uses has such a quota, which counts all, in the store (host_store.h) too. The groups of the
 * session have quotas of what all their members have on the GPU, without the store.
 *
 * Everything charged to a quota has a reference to it, also after the session has ended:
 * memory that another session has open, arrays whose end is deferred. So memory of a session
 * counts exactly as long as it exists, or to the session's end if the server cannot know how long
 * it exists.
 *
 * Any thread, but only the session's worker calls device_quota_new().
 */

#include "server/util/account.h"
#include "server/session/group.h"

struct session;

struct device_quota {
	struct quota quota;
	/* What the session has on the GPU, without a limit: the parents are the groups' quotas. */
	struct {
		struct quota quota;
		struct group *group; /* a reference */
	} in[MEMBERSHIPS_MAX];
	unsigned n_in;
	bool is_unchecked; /* the worker's: see device_quotas_check() */
	atomic_uint refs;
	_Atomic uint64_t peak;     /* the most that was ever charged at a time */
	_Atomic uint64_t closing;  /* charged for arrays that wait for their deferred end */
	_Atomic uint64_t exported; /* charged until the session ends */
	/* Of the last charge: 0: none, 1: the own limit has refused it, 2 + i: that of in[i]. */
	_Atomic uint32_t refusal;
};

/* Returns NULL without memory. */
struct device_quota *device_quota_new(struct account *account, uint64_t limit);

/* Before the first charge; at most MEMBERSHIPS_MAX times. */
void device_quota_join(struct device_quota *quota, struct group *group, uint32_t ordinal);

struct device_quota *device_quota_ref(struct device_quota *quota);
void device_quota_unref(struct device_quota *quota); /* NULL is fine */

/* NULL is fine in both, and has no limit. False: a limit is met. */
bool device_quota_charge(struct device_quota *quota, uint64_t size);
void device_quota_refund(struct device_quota *quota, uint64_t size);

/*
 * The worker, or before it starts. While the session's quotas are not checked, each charge is of
 * what was charged before, perhaps in another server, and succeeds, whatever the limits are now.
 */
void device_quotas_check(struct session *session, bool is_checked);

/*
 * What was charged goes to the store, and comes back; false: a group has no room. What ends there
 * is refunded by device_quota_refund_away(). NULL is fine.
 */
void device_quota_leave(struct device_quota *quota, uint64_t size);
bool device_quota_return(struct device_quota *quota, uint64_t size);
void device_quota_refund_away(struct device_quota *quota, uint64_t size);

/* The least limit, of the groups too; and the largest possible charge. */
uint64_t device_quota_limit(const struct device_quota *quota);
uint64_t device_quota_left(const struct device_quota *quota);

/* What the groups leave; and the first one that leaves less than `size'. NULL: there is none. */
uint64_t device_quota_left_in_groups(const struct device_quota *quota);
struct group *device_quota_full_group(
	const struct device_quota *quota, uint32_t ordinal, uint64_t size);

/*
 * Instead of a refund: another process may have a descriptor of the memory, so the memory may
 * still exist. It stays charged until the session ends. NULL is fine.
 */
void device_quota_keep(struct device_quota *quota, uint64_t size);

/*
 * Which limit has refused the last charge, and how many bytes it is; the next call does not
 * return the same refusal again. REFUSAL_NONE: no limit. NULL is fine.
 */
enum memory_refusal device_quota_take_refusal(struct device_quota *quota, uint64_t *ret_limit);

/*
 * The loop, before session_free(): refunds what was kept, and drops the session's own
 * references, with which the loop reads what its GPUs' quotas have. Accepts NULL.
 */
void device_quotas_unref(struct session *session);

#endif
