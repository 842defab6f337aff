/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Quotas of sessions for GPUs. Any thread.
 *
 * Invariant: the reference to the group is dropped after the last charge.
 */

#include "device_quota.h"

struct device_quota *device_quota_new(
	struct account *account, struct group *group, uint32_t ordinal, uint64_t limit)
{
	struct device_quota *quota = account_alloc(account, sizeof(*quota), 0);

	if (!quota)
		return NULL;
	atomic_store(&quota->quota.limit, limit);
	if (group) {
		quota->group = group_ref(group);
		quota->quota.parent = &group->memory[ordinal];
	}
	atomic_store(&quota->refs, 1);
	return quota;
}

struct device_quota *device_quota_ref(struct device_quota *quota)
{
	if (quota)
		atomic_fetch_add(&quota->refs, 1);
	return quota;
}

void device_quota_unref(struct device_quota *quota)
{
	if (!quota || atomic_fetch_sub(&quota->refs, 1) > 1)
		return;
	group_unref(quota->group);
	account_free(quota);
}

bool device_quota_charge(struct device_quota *quota, uint64_t size)
{
	return !quota || quota_charge(&quota->quota, size);
}

void device_quota_refund(struct device_quota *quota, uint64_t size)
{
	if (quota && size > 0)
		quota_refund(&quota->quota, size);
}
