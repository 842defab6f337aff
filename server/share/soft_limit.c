/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Soft limits. Any thread.
 *
 * Invariant: memory in the store is not borrowed, and is not guaranteed space either.
 */

#include "soft_limit.h"

#include "eviction.h"
#include "server/session/session.h"
#include "server/device/device_quota.h"

static uint64_t own_soft(const struct session *session, uint32_t device)
{
	return session->limits.soft[device];
}

static uint64_t group_soft(const struct session *session, uint32_t device)
{
	return session->group ? atomic_load(&session->group->soft[device]) : UINT64_MAX;
}

static uint64_t own_used(const struct session *session, uint32_t device)
{
	const struct device_quota *quota = atomic_load(&session->quotas[device]);

	return quota ? quota_used(&quota->quota) : 0;
}

/* What all members have in this server. The quota also counts what the lease lacks. */
static uint64_t group_used(const struct session *session, uint32_t device)
{
	uint64_t used = quota_used(&session->group->memory[device]);
	uint64_t away = atomic_load(&session->group->lease.away[device]);

	return used - MIN(used, away);
}

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

bool soft_limit_is_set(const struct session *session, uint32_t device)
{
	return own_soft(session, device) != UINT64_MAX || group_soft(session, device) != UINT64_MAX;
}

static bool group_holds(const struct session *session, uint32_t device)
{
	return group_soft(session, device) == UINT64_MAX ||
	       group_used(session, device) <= group_soft(session, device);
}

bool soft_limit_holds(const struct session *session, uint32_t device)
{
	return soft_limit_is_set(session, device) &&
	       own_used(session, device) <= own_soft(session, device) &&
	       group_holds(session, device);
}

uint64_t soft_limit_left(const struct session *session, uint32_t device)
{
	uint64_t left;

	if (!soft_limit_is_set(session, device))
		return 0;
	left = difference(own_soft(session, device), own_used(session, device));
	if (group_soft(session, device) != UINT64_MAX)
		left = MIN(
			left, difference(group_soft(session, device), group_used(session, device)));
	return left;
}

uint64_t soft_limit_borrowed(const struct session *session, uint32_t device)
{
	uint64_t used = own_used(session, device);
	uint64_t here = difference(used, atomic_load(&session->eviction->away[device]));
	uint64_t borrowed = difference(here, own_soft(session, device));

	if (group_soft(session, device) == UINT64_MAX)
		return borrowed;
	used = difference(
		group_used(session, device), atomic_load(&session->group->evicted[device]));
	return MAX(borrowed, MIN(here, difference(used, group_soft(session, device))));
}
