/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUOTA_H
#define QUOTA_H

/*
 * What a session may have of something, embedded in what it pays for. One
 * thread: the session's worker.
 */

#include "base.h"

struct quota {
	uint64_t limit;
	uint64_t used; /* never above limit */
};

static inline bool quota_charge(struct quota *quota, uint64_t amount)
{
	if (amount > quota->limit - quota->used)
		return false;
	quota->used += amount;
	return true;
}

static inline void quota_refund(struct quota *quota, uint64_t amount)
{
	quota->used -= MIN(amount, quota->used);
}

#endif
