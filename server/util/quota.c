/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chains of quotas. Any thread, without a lock.
 *
 * Invariant: a parent has counted, for each child, at least what the child uses, rounded up
 * to whole steps. It counts exactly that while no call is under way. A parent is charged
 * before its child, and refunded after it.
 */

#include "quota.h"

/* What a charge does to one quota. */
struct chain_link {
	struct quota *quota;
	uint64_t before, after;
};

static uint64_t whole_steps(uint64_t used)
{
	return ALIGN_UP(used, QUOTA_STEP);
}

/* What the parent is charged with if the quota uses `used'. */
static uint64_t quota_taken(const struct quota *quota, uint64_t used)
{
	return quota->is_exact ? used : whole_steps(used);
}

/*
 * Whether the quota may use `after' bytes, of which `child' (NULL: there is no child) then
 * has `taken'.
 */
static bool quota_allows(
	const struct quota *quota, uint64_t after, const struct quota *child, uint64_t taken)
{
	uint64_t limit = atomic_load_explicit(&quota->limit, memory_order_relaxed);

	if (child && taken <= child->own)
		return true;
	return after <= limit && (!child || quota->is_common || taken <= limit - after);
}

/* Fills in `links' from the current counters. Returns their number; 0: a quota refuses. */
static unsigned quota_plan(
	struct quota *quota, uint64_t amount, struct chain_link links[QUOTA_CHAIN_MAX])
{
	const struct quota *child = NULL;
	uint64_t taken = 0;
	unsigned n = 0;

	for (; quota && amount > 0; child = quota, quota = quota->parent) {
		struct chain_link *link = &links[n++];

		link->quota = quota;
		link->before = quota_used(quota);
		if (__builtin_add_overflow(link->before, amount, &link->after) ||
			!quota_allows(quota, link->after, child, taken))
			return 0;
		taken = quota_taken(quota, link->after);
		amount = taken - quota_taken(quota, link->before);
	}
	return n;
}

/* Charges parents first. Returns how many links were not charged because a counter has changed. */
static unsigned quota_commit(struct chain_link *links, unsigned n)
{
	while (n > 0 && atomic_compare_exchange_strong(&links[n - 1].quota->used,
				&links[n - 1].before, links[n - 1].after))
		n--;
	return n;
}

bool quota_charge(struct quota *quota, uint64_t amount)
{
	struct chain_link links[QUOTA_CHAIN_MAX];
	unsigned n, n_left = amount > 0;

	while (n_left > 0) {
		n = quota_plan(quota, amount, links);
		if (n == 0)
			return false;
		n_left = quota_commit(links, n);
		if (n_left > 0 && n_left < n)
			quota_refund(
				links[n_left].quota, links[n_left].after - links[n_left].before);
	}
	return true;
}

void quota_force(struct quota *quota, uint64_t amount)
{
	for (; quota && amount > 0; quota = quota->parent) {
		uint64_t before = atomic_fetch_add(&quota->used, amount);

		amount = quota_taken(quota, before + amount) - quota_taken(quota, before);
	}
}

uint64_t quota_left(const struct quota *quota)
{
	uint64_t left = UINT64_MAX;

	for (; quota; quota = quota->parent) {
		uint64_t limit = atomic_load_explicit(&quota->limit, memory_order_relaxed);
		uint64_t used = quota_used(quota);

		left = MIN(left, limit > used ? limit - used : 0);
	}
	return left;
}

uint64_t quota_limit(const struct quota *quota)
{
	uint64_t least = UINT64_MAX;

	for (; quota; quota = quota->parent) {
		uint64_t limit = atomic_load_explicit(&quota->limit, memory_order_relaxed);

		least = MIN(least, limit);
	}
	return least;
}

uint64_t quota_refund(struct quota *quota, uint64_t amount)
{
	const struct quota *first = quota;
	uint64_t left = 0;

	while (quota && amount > 0) {
		/* After the subtraction another thread may free the quota. */
		struct quota *parent = quota->parent;
		bool is_exact = quota->is_exact;
		uint64_t before = atomic_fetch_sub(&quota->used, amount);

		if (quota == first)
			left = before - amount;
		if (!is_exact)
			amount = whole_steps(before) - whole_steps(before - amount);
		quota = parent;
	}
	return left;
}
