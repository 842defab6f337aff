/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_QUOTA_H
#define DEVICE_QUOTA_H

/*
 * How much of a GPU's memory a session may have, and how much it has. Each GPU that the
 * session uses has such a quota, whose parent is the quota of the session's group.
 *
 * Everything charged to a quota has a reference to it, also after the session has ended:
 * memory that another session has open, arrays whose end is deferred. So memory of a session
 * counts exactly as long as it exists, or to the session's end if nobody can know how long it
 * exists.
 *
 * Any thread, but only the session's worker calls device_quota_new().
 */

#include "server/util/account.h"
#include "server/session/group.h"

struct session;

struct device_quota {
	struct quota quota;
	struct group *group; /* a reference; NULL: none */
	atomic_uint refs;
	_Atomic uint64_t peak;     /* the most that was ever charged at a time */
	_Atomic uint64_t closing;  /* charged for arrays that wait for their deferred end */
	_Atomic uint64_t exported; /* charged until the session ends */
	_Atomic uint32_t refusal;  /* of the last charge: enum memory_refusal */
};

/* `group' may be NULL. Returns NULL without memory. */
struct device_quota *device_quota_new(
	struct account *account, struct group *group, uint32_t ordinal, uint64_t limit);

struct device_quota *device_quota_ref(struct device_quota *quota);
void device_quota_unref(struct device_quota *quota); /* NULL is fine */

/* NULL is fine in both, and has no limit. False: a limit is met. */
bool device_quota_charge(struct device_quota *quota, uint64_t size);
void device_quota_refund(struct device_quota *quota, uint64_t size);

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
