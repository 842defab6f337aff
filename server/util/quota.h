/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUOTA_H
#define QUOTA_H

/*
 * A quota says how much of something may be used, and counts how much is. Quotas form a
 * chain, for instance from a session's to the server's; a group and a user can come
 * between. A charge to one quota is a charge to all that follow it, and quota_charge() is
 * the only function that checks them.
 *
 * The first quota of a chain is charged by the byte. Its parent is charged in whole
 * steps, so that the parent's counter, which many threads share, changes seldom.
 *
 * Mostly no child can take all that a parent has: a child may have as much as it leaves to the
 * other children. So the first child can have half, and a second one half of the rest. A child
 * may always have its `own' part, which is not subject to that rule. A parent that `is_common'
 * has no such rule: the first child to come can have all of it.
 *
 * Any thread. A parent outlives its children.
 */

#include <stdatomic.h>

#include "base.h"

struct quota {
	struct quota *parent;   /* NULL: the last of the chain */
	_Atomic uint64_t limit; /* may be lowered below what is used: then nothing is charged */
	uint64_t own;           /* of what the parent has */
	bool is_common;
	_Atomic uint64_t used; /* may exceed the limit by the children's own parts */
};

/* What a child takes from its parent at a time. */
#define QUOTA_STEP ((uint64_t)1 << 20)

/* The longest chain: session, group, user, server. */
#define QUOTA_CHAIN_MAX 4

/* False: a quota of the chain refuses, and none is charged. */
bool quota_charge(struct quota *quota, uint64_t amount);

/*
 * Gives back what was charged, which is not 0. Returns what is still used of `quota'. After
 * the last refund, which returns 0, no other thread looks at `quota'.
 */
uint64_t quota_refund(struct quota *quota, uint64_t amount);

/* What a charge may be at most, where all parents are common. */
uint64_t quota_left(const struct quota *quota);

/* The least limit of the chain. */
uint64_t quota_limit(const struct quota *quota);

static inline uint64_t quota_used(const struct quota *quota)
{
	return atomic_load_explicit(&quota->used, memory_order_relaxed);
}

#endif
