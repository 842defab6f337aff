/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Quotas of sessions for GPUs. Any thread.
 *
 * Invariant: the reference to the group is dropped after the last charge.
 */

#include "device_quota.h"

#include "server/session/session.h"

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

/* The own limit, or else that of the group. */
static enum memory_refusal device_quota_find_refusal(const struct quota *quota, uint64_t size)
{
	uint64_t limit = atomic_load_explicit(&quota->limit, memory_order_relaxed);
	uint64_t used = quota_used(quota);

	if (!quota->parent || used > limit || size > limit - used)
		return REFUSAL_BY_CLIENT;
	return REFUSAL_BY_GROUP;
}

enum memory_refusal device_quota_take_refusal(struct device_quota *quota, uint64_t *ret_limit)
{
	const struct quota *by = quota ? &quota->quota : NULL;
	enum memory_refusal refusal = REFUSAL_NONE;

	if (quota)
		refusal = atomic_exchange(&quota->refusal, REFUSAL_NONE);
	if (refusal == REFUSAL_BY_GROUP)
		by = by->parent;
	if (refusal != REFUSAL_NONE)
		*ret_limit = quota_limit(by);
	return refusal;
}

bool device_quota_charge(struct device_quota *quota, uint64_t size)
{
	enum memory_refusal refusal = REFUSAL_NONE;
	uint64_t used;

	if (!quota)
		return true;
	if (!quota_charge(&quota->quota, size))
		refusal = device_quota_find_refusal(&quota->quota, size);
	atomic_store_explicit(&quota->refusal, refusal, memory_order_relaxed);
	if (refusal != REFUSAL_NONE)
		return false;
	used = quota_used(&quota->quota);
	/* Another thread's charge at the same time may be missed: the next one notes both. */
	if (used > atomic_load_explicit(&quota->peak, memory_order_relaxed))
		atomic_store_explicit(&quota->peak, used, memory_order_relaxed);
	return true;
}

void device_quota_refund(struct device_quota *quota, uint64_t size)
{
	if (quota && size > 0)
		quota_refund(&quota->quota, size);
}

void device_quota_keep(struct device_quota *quota, uint64_t size)
{
	if (quota)
		atomic_fetch_add(&quota->exported, size);
}

void device_quotas_unref(struct session *session)
{
	for (unsigned i = 0; session && i < DEVICES_MAX; i++) {
		struct device_quota *quota = atomic_exchange(&session->quotas[i], NULL);

		if (quota)
			device_quota_refund(quota, atomic_exchange(&quota->exported, 0));
		device_quota_unref(quota);
	}
}
