/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANGES_H
#define RANGES_H

/*
 * The few pieces of memory outside its units that a session may touch: its
 * libraries' variables. Sorted by address, never overlapping. A worker.
 */

#include "account.h"

struct range {
	uint64_t address, size;
	const void *owner; /* what it goes away with; compared, never followed */
};

/* Zero-initialised is empty. */
struct ranges {
	struct account *account; /* not owned: that pays for the list */
	struct range *list;
	uint32_t n, n_max;
};

void ranges_fini(struct ranges *ranges);

/* Adding one that is there already is fine. 0, -ENOMEM, -EEXIST (it overlaps another). */
int ranges_add(struct ranges *ranges, uint64_t address, uint64_t size, const void *owner);

/* All that were added for `owner'. */
void ranges_remove(struct ranges *ranges, const void *owner);

/* Whether these bytes lie in one of them. */
bool ranges_have(const struct ranges *ranges, uint64_t address, uint64_t size);

#endif
