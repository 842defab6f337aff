/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADDRESS_MAP_H
#define ADDRESS_MAP_H

/*
 * Address ranges in order: a skip list. No locks and no threads of its own; its
 * user has both.
 */

#include "memory.h"

#define MIRROR_LEVELS 20

struct mirror_node {
	struct memory_range range;
	unsigned n_levels;
	struct mirror_node *next[]; /* n_levels */
};

struct mirror {
	struct mirror_node *first[MIRROR_LEVELS];
	unsigned n_levels; /* that ever had a node: most have few */
	uint64_t random;
};

/* -ENOMEM, or -EEXIST if it overlaps another. */
int mirror_add(struct mirror *mirror, const struct memory_range *range);

/* The range that `address' lies in, valid until it is removed; NULL: none. */
const struct memory_range *mirror_find(const struct mirror *mirror, uint64_t address);

/* The first range that starts at `address' or above; NULL: none. */
const struct memory_range *mirror_next(const struct mirror *mirror, uint64_t address);

/* Takes out the range that starts at `address'; false: there is none. */
bool mirror_remove(struct mirror *mirror, uint64_t address);

#endif
