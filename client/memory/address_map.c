/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A skip list of address ranges. Called under the lock of its user.
 *
 * Invariant: ranges are in rising order and do not overlap. A node is in the lists
 * of its first n_levels levels.
 */

#include "address_map.h"

static unsigned random_levels(struct address_map *map)
{
	/* xorshift: a quarter of the nodes of each level is also on the next one. */
	map->random ^= map->random << 13;
	map->random ^= map->random >> 7;
	map->random ^= map->random << 17;
	return MIN(1 + (unsigned)__builtin_ctzll(map->random | 1ull << 62) / 2, ADDRESS_MAP_LEVELS);
}

/*
 * For each level, the link behind the last node that starts below `address'.
 * Returns that node of the lowest level, or NULL.
 */
static struct address_map_node *address_map_descend(const struct address_map *map, uint64_t address,
	struct address_map_node **links[ADDRESS_MAP_LEVELS])
{
	struct address_map_node **level = (struct address_map_node **)map->first;
	struct address_map_node *below = NULL;

	for (unsigned i = ADDRESS_MAP_LEVELS; i-- > 0;) {
		while (level[i] && level[i]->range.address < address) {
			below = level[i];
			level = below->next;
		}
		links[i] = &level[i];
	}
	return below;
}

int address_map_add(struct address_map *map, const struct memory_range *range)
{
	struct address_map_node **links[ADDRESS_MAP_LEVELS];
	struct address_map_node *below, *node;
	unsigned n_levels;

	if (map->random == 0)
		map->random = 0x9e3779b97f4a7c15;
	n_levels = random_levels(map);
	map->n_levels = MAX(map->n_levels, n_levels);
	below = address_map_descend(map, range->address, links);
	if ((below && range->address - below->range.address < below->range.size) ||
		(*links[0] && (*links[0])->range.address - range->address < range->size))
		return -EEXIST;
	node = malloc(sizeof(*node) + n_levels * sizeof(struct address_map_node *));
	if (!node)
		return -ENOMEM;
	node->range = *range;
	node->n_levels = n_levels;
	do {
		n_levels--;
		node->next[n_levels] = *links[n_levels];
		*links[n_levels] = node;
	} while (n_levels > 0);
	return 0;
}

const struct memory_range *address_map_next(const struct address_map *map, uint64_t address)
{
	struct address_map_node **links[ADDRESS_MAP_LEVELS];

	address_map_descend(map, address, links);
	return *links[0] ? &(*links[0])->range : NULL;
}

const struct memory_range *address_map_find(const struct address_map *map, uint64_t address)
{
	struct address_map_node *const *level = map->first;
	const struct address_map_node *last = NULL;

	for (unsigned i = map->n_levels; i-- > 0;)
		while (level[i] && level[i]->range.address <= address) {
			last = level[i];
			level = last->next;
		}
	if (last && (last->range.address == address ||
			    address - last->range.address < last->range.size))
		return &last->range;
	return NULL;
}

bool address_map_remove(struct address_map *map, uint64_t address)
{
	struct address_map_node **links[ADDRESS_MAP_LEVELS];
	struct address_map_node *node;

	address_map_descend(map, address, links);
	node = *links[0];
	if (!node || node->range.address != address)
		return false;
	for (unsigned i = 0; i < node->n_levels; i++)
		*links[i] = node->next[i];
	free(node);
	return true;
}
