/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADDRESS_MAP_H
#define ADDRESS_MAP_H

/* An ordered map of address ranges: a skip list. It has no lock; its user has one. */

#include "memory.h"

#define ADDRESS_MAP_LEVELS 20

struct address_map_node {
	struct memory_range range;
	unsigned n_levels;
	struct address_map_node *next[]; /* n_levels */
};

struct address_map {
	struct address_map_node *first[ADDRESS_MAP_LEVELS];
	unsigned n_levels; /* levels that ever had a node: usually few */
	uint64_t random;
};

/* -ENOMEM, or -EEXIST if it overlaps another range. */
int address_map_add(struct address_map *map, const struct memory_range *range);

/* The range that contains `address', valid until it is removed; NULL: none. */
const struct memory_range *address_map_find(const struct address_map *map, uint64_t address);

/* The first range that starts at or above `address'; NULL: none. */
const struct memory_range *address_map_next(const struct address_map *map, uint64_t address);

/* Removes the range that starts at `address'; false: there is none. */
bool address_map_remove(struct address_map *map, uint64_t address);

#endif
