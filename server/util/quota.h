/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUOTA_H
#define QUOTA_H

/*
 * A quota says how much of something may be used, and counts how much is used. Quotas form a
 * chain, for instance from session to server, with a group and a user between them. A charge
 * to one quota is a charge to all quotas that follow it. Only quota_charge() checks limits.
 *
 * The first quota of a chain is charged by the byte. Its parent is charged in whole steps,
 * so that the parent's counter, which many threads share, changes seldom. For things that
 * are few, all quotas of a chain are exact instead.
 *
 * A child may have no more than it leaves to the other children: the first child can have
 * half, and a second one half of the rest. A child may always have its `own' part, which is
 * not subject to that rule. The rule does not apply to a parent that `is_common': its first
 * child can have everything.
 *
 * Any thread. A parent outlives its children.
 */

#include <stdatomic.h>

#include "base.h"

struct quota {
	struct quota *parent;   /* NULL: the last of the chain */
	_Atomic uint64_t limit; /* may be below `used': then charges are refused */
	uint64_t own;           /* of what the parent has */
	bool is_common;         /* its children share it in the order of use */
	bool is_exact;          /* charges its parent with what it uses, not in steps */
	_Atomic uint64_t used;  /* may exceed the limit by the children's own parts */
};

/* How much a child takes from its parent at a time. */
#define QUOTA_STEP ((uint64_t)1 << 20)

/* The longest chain: session, process, user, server. */
#define QUOTA_CHAIN_MAX 4

/* False: a quota of the chain refuses, and no quota is charged. */
bool quota_charge(struct quota *quota, uint64_t amount);

/*
 * Charges without a check, beyond the limits if need be. No other thread refunds the quota
 * meanwhile, unless it is the last one of its chain.
 */
void quota_force(struct quota *quota, uint64_t amount);

/*
 * Refunds `amount', which is not 0. Returns what is still used of `quota'. After the last
 * refund, which returns 0, no other thread accesses `quota'.
 */
uint64_t quota_refund(struct quota *quota, uint64_t amount);

/* The largest possible charge, if all parents are common. */
uint64_t quota_left(const struct quota *quota);

/* The least limit of the chain. */
uint64_t quota_limit(const struct quota *quota);

static inline uint64_t quota_used(const struct quota *quota)
{
	return atomic_load_explicit(&quota->used, memory_order_relaxed);
}

#endif
