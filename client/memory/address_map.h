/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADDRESS_MAP_H
#define ADDRESS_MAP_H

/*
 * Address ranges in order: a skip list. No locks and no threads of its own; its
 * user has both.
 */

#include "memory.h"

#define ADDRESS_MAP_LEVELS 20

struct address_map_node {
	struct memory_range range;
	unsigned n_levels;
	struct address_map_node *next[]; /* n_levels */
};

struct address_map {
	struct address_map_node *first[ADDRESS_MAP_LEVELS];
	unsigned n_levels; /* that ever had a node: most have few */
	uint64_t random;
};

/* -ENOMEM, or -EEXIST if it overlaps another. */
int address_map_add(struct address_map *map, const struct memory_range *range);

/* The range that `address' lies in, valid until it is removed; NULL: none. */
const struct memory_range *address_map_find(const struct address_map *map, uint64_t address);

/* The first range that starts at `address' or above; NULL: none. */
const struct memory_range *address_map_next(const struct address_map *map, uint64_t address);

/* Takes out the range that starts at `address'; false: there is none. */
bool address_map_remove(struct address_map *map, uint64_t address);

#endif
