/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Quotas of sessions for GPUs. Any thread.
 *
 * Invariant: the reference to the group is dropped after the last charge.
 */

#include "device_quota.h"

#include "server/session/session.h"

struct device_quota *device_quota_new(struct account *account, uint64_t limit)
{
	struct device_quota *quota = account_alloc(account, sizeof(*quota), 0);

	if (!quota)
		return NULL;
	atomic_store(&quota->quota.limit, limit);
	atomic_store(&quota->refs, 1);
	return quota;
}

void device_quota_join(struct device_quota *quota, struct group *group, uint32_t ordinal)
{
	const unsigned i = quota->n_in++;

	quota->in[i].group = group_ref(group);
	quota->in[i].quota.parent = &group->memory[ordinal];
	atomic_store(&quota->in[i].quota.limit, UINT64_MAX);
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
	for (unsigned i = 0; i < quota->n_in; i++)
		group_unref(quota->in[i].group);
	account_free(quota);
}

/* Returns how many groups there are to refund: all are charged, or the next one has refused. */
static unsigned charge_groups(struct device_quota *quota, uint64_t size)
{
	unsigned n = 0;

	while (n < quota->n_in && quota_charge(&quota->in[n].quota, size))
		n++;
	return n;
}

static void refund_groups(struct device_quota *quota, unsigned n, uint64_t size)
{
	for (unsigned i = 0; i < n && size > 0; i++)
		quota_refund(&quota->in[i].quota, size);
}

static enum memory_refusal refusal_of(const struct device_quota *quota, uint32_t refusal)
{
	if (refusal < 2)
		return refusal == 0 ? REFUSAL_NONE : REFUSAL_BY_CLIENT;
	return quota->in[refusal - 2].group->is_cgroup ? REFUSAL_BY_CGROUP : REFUSAL_BY_GROUP;
}

enum memory_refusal device_quota_take_refusal(struct device_quota *quota, uint64_t *ret_limit)
{
	uint32_t refusal = quota ? atomic_exchange(&quota->refusal, 0) : 0;

	if (refusal > 0)
		*ret_limit =
			quota_limit(refusal == 1 ? &quota->quota : &quota->in[refusal - 2].quota);
	return quota ? refusal_of(quota, refusal) : REFUSAL_NONE;
}

static uint32_t device_quota_try(struct device_quota *quota, uint64_t size)
{
	unsigned n;

	if (!quota_charge(&quota->quota, size))
		return 1;
	n = charge_groups(quota, size);
	if (n == quota->n_in)
		return 0;
	refund_groups(quota, n, size);
	quota_refund(&quota->quota, size);
	return 2 + n;
}

static void note_peak(struct device_quota *quota)
{
	uint64_t used = quota_used(&quota->quota);

	/* Another thread's charge at the same time may be missed: the next one notes both. */
	if (used > atomic_load_explicit(&quota->peak, memory_order_relaxed))
		atomic_store_explicit(&quota->peak, used, memory_order_relaxed);
}

static void device_quota_force(struct device_quota *quota, uint64_t size)
{
	for (unsigned i = 0; i < quota->n_in; i++)
		quota_force(&quota->in[i].quota, size);
	quota_force(&quota->quota, size);
}

bool device_quota_charge(struct device_quota *quota, uint64_t size)
{
	uint32_t refusal = 0;

	if (!quota || size == 0)
		return true;
	if (quota->is_unchecked)
		device_quota_force(quota, size);
	else
		refusal = device_quota_try(quota, size);
	atomic_store_explicit(&quota->refusal, refusal, memory_order_relaxed);
	if (refusal > 0)
		return false;
	note_peak(quota);
	return true;
}

void device_quotas_check(struct session *session, bool is_checked)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct device_quota *quota = atomic_load(&session->quotas[i]);

		if (quota)
			quota->is_unchecked = !is_checked;
	}
}

void device_quota_refund(struct device_quota *quota, uint64_t size)
{
	if (!quota || size == 0)
		return;
	refund_groups(quota, quota->n_in, size);
	quota_refund(&quota->quota, size);
}

void device_quota_leave(struct device_quota *quota, uint64_t size)
{
	if (quota)
		refund_groups(quota, quota->n_in, size);
}

bool device_quota_return(struct device_quota *quota, uint64_t size)
{
	unsigned n = quota ? charge_groups(quota, size) : 0;

	if (!quota || n == quota->n_in)
		return true;
	refund_groups(quota, n, size);
	return false;
}

void device_quota_refund_away(struct device_quota *quota, uint64_t size)
{
	if (quota && size > 0)
		quota_refund(&quota->quota, size);
}

uint64_t device_quota_limit(const struct device_quota *quota)
{
	uint64_t limit = quota_limit(&quota->quota);

	for (unsigned i = 0; i < quota->n_in; i++)
		limit = MIN(limit, quota_limit(&quota->in[i].quota));
	return limit;
}

uint64_t device_quota_left_in_groups(const struct device_quota *quota)
{
	uint64_t left = UINT64_MAX;

	for (unsigned i = 0; i < quota->n_in; i++)
		left = MIN(left, quota_left(quota->in[i].quota.parent));
	return left;
}

uint64_t device_quota_left(const struct device_quota *quota)
{
	return MIN(quota_left(&quota->quota), device_quota_left_in_groups(quota));
}

struct group *device_quota_full_group(
	const struct device_quota *quota, uint32_t ordinal, uint64_t size)
{
	for (unsigned i = 0; i < quota->n_in; i++)
		if (quota_left(&quota->in[i].group->memory[ordinal]) < size)
			return quota->in[i].group;
	return NULL;
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
