/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANGES_H
#define RANGES_H

/*
 * The memory outside its VA windows that a session may touch: variables of its libraries.
 * Sorted by address, without overlaps. A worker.
 */

#include "account.h"

struct range {
	uint64_t address, size;
	const void *owner; /* the object with which it goes; compared, never dereferenced */
};

/* Zero-initialised is empty. */
struct ranges {
	struct account *account; /* not owned: pays for the list */
	struct range *list;
	uint32_t n, n_max;
};

void ranges_fini(struct ranges *ranges);

/* Adding a range again is fine. 0, -ENOMEM, -EEXIST (it overlaps another range). */
int ranges_add(struct ranges *ranges, uint64_t address, uint64_t size, const void *owner);

/* Removes all ranges of `owner'. */
void ranges_remove(struct ranges *ranges, const void *owner);

/* Whether all these bytes lie in one range. */
bool ranges_have(const struct ranges *ranges, uint64_t address, uint64_t size);

#endif
