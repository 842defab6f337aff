/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Soft limits. Any thread.
 *
 * Invariant: memory in the store is not borrowed, and is not guaranteed space either. Quotas of
 * groups do not count it.
 */

#include "soft_limit.h"

#include "eviction.h"
#include "server/session/session.h"
#include "server/device/device_quota.h"

static uint64_t own_soft(const struct session *session, uint32_t device)
{
	return session->limits.soft[device];
}

static uint64_t own_used(const struct session *session, uint32_t device)
{
	const struct device_quota *quota = atomic_load(&session->quotas[device]);

	return quota ? quota_used(&quota->quota) : 0;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* UINT64_MAX: it has no soft limit. */
static uint64_t group_soft(const struct group *group, uint32_t device)
{
	return group ? atomic_load(&group->soft[device]) : UINT64_MAX;
}

/* What all members have on the GPU. The quota also counts what the lease lacks. */
static uint64_t group_here(const struct group *group, uint32_t device)
{
	return difference(
		quota_used(&group->memory[device]), atomic_load(&group->lease.away[device]));
}

bool soft_limit_is_set(const struct session *session, uint32_t device)
{
	if (own_soft(session, device) != UINT64_MAX)
		return true;
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (group_soft(session_group(session, i), device) != UINT64_MAX)
			return true;
	return false;
}

static bool group_holds(const struct group *group, uint32_t device)
{
	const uint64_t soft = group_soft(group, device);

	return soft == UINT64_MAX ||
	       group_here(group, device) + atomic_load(&group->evicted[device]) <= soft;
}

bool soft_limit_holds(const struct session *session, uint32_t device)
{
	if (!soft_limit_is_set(session, device) ||
		own_used(session, device) > own_soft(session, device))
		return false;
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (!group_holds(session_group(session, i), device))
			return false;
	return true;
}

static uint64_t group_left(const struct group *group, uint32_t device)
{
	const uint64_t soft = group_soft(group, device);

	return soft == UINT64_MAX ? soft
				  : difference(soft, group_here(group, device) +
							     atomic_load(&group->evicted[device]));
}

uint64_t soft_limit_left(const struct session *session, uint32_t device)
{
	uint64_t left;

	if (!soft_limit_is_set(session, device))
		return 0;
	left = difference(own_soft(session, device), own_used(session, device));
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		left = MIN(left, group_left(session_group(session, i), device));
	return left;
}

uint64_t soft_limit_borrowed(const struct session *session, uint32_t device)
{
	uint64_t here = difference(
		own_used(session, device), atomic_load(&session->eviction->away[device]));
	uint64_t borrowed = difference(here, own_soft(session, device));

	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++) {
		const struct group *group = session_group(session, i);
		const uint64_t soft = group_soft(group, device);

		if (soft != UINT64_MAX)
			borrowed = MAX(
				borrowed, MIN(here, difference(group_here(group, device), soft)));
	}
	return borrowed;
}
