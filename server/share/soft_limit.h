/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFT_LIMIT_H
#define SOFT_LIMIT_H

/*
 * Soft limits of memory. A session may have one for a GPU, and so may its group, for all its
 * members in this server together. What a session has on the GPU beyond either is borrowed: it
 * leaves for the store (eviction.h) when a session inside its own soft limits finds no space. A
 * session without a soft limit borrows nothing, and has nothing guaranteed.
 *
 * Any thread, while the session lives. Nothing is counted here: the numbers are those of quotas.
 */

#include <stdint.h>

#include "base.h"

struct session;

bool soft_limit_is_set(const struct session *session, uint32_t device);

/* Whether it has a soft limit, and nothing beyond one, counting its memory in the store. */
bool soft_limit_holds(const struct session *session, uint32_t device);

/* How many bytes it may have in addition and be inside its soft limits. 0 if it has none. */
uint64_t soft_limit_left(const struct session *session, uint32_t device);

/* How many bytes it has on the GPU beyond a soft limit; not more than it has there. */
uint64_t soft_limit_borrowed(const struct session *session, uint32_t device);

#endif
