/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A skip list of address ranges. By whoever holds its user's lock.
 *
 * Invariant: ranges are in rising order and don't overlap; a node is in the
 * lists of its first n_levels levels.
 */

#include "address_map.h"

static unsigned random_levels(struct mirror *mirror)
{
	/* xorshift: a quarter of the nodes at each level goes one up. */
	mirror->random ^= mirror->random << 13;
	mirror->random ^= mirror->random >> 7;
	mirror->random ^= mirror->random << 17;
	return MIN(1 + (unsigned)__builtin_ctzll(mirror->random | 1ull << 62) / 2, MIRROR_LEVELS);
}

/*
 * On each level the link behind the last node that starts below `address';
 * returns that node of the lowest level, NULL if there is none.
 */
static struct mirror_node *descend(
	const struct mirror *mirror, uint64_t address, struct mirror_node **links[MIRROR_LEVELS])
{
	struct mirror_node **level = (struct mirror_node **)mirror->first;
	struct mirror_node *below = NULL;

	for (unsigned i = MIRROR_LEVELS; i-- > 0;) {
		while (level[i] && level[i]->range.address < address) {
			below = level[i];
			level = below->next;
		}
		links[i] = &level[i];
	}
	return below;
}

int mirror_add(struct mirror *mirror, const struct memory_range *range)
{
	struct mirror_node **links[MIRROR_LEVELS];
	struct mirror_node *below, *node;
	unsigned n_levels;

	if (mirror->random == 0)
		mirror->random = 0x9e3779b97f4a7c15;
	n_levels = random_levels(mirror);
	mirror->n_levels = MAX(mirror->n_levels, n_levels);
	below = descend(mirror, range->address, links);
	if ((below && range->address - below->range.address < below->range.size) ||
		(*links[0] && (*links[0])->range.address - range->address < range->size))
		return -EEXIST;
	node = malloc(sizeof(*node) + n_levels * sizeof(struct mirror_node *));
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

const struct memory_range *mirror_next(const struct mirror *mirror, uint64_t address)
{
	struct mirror_node **links[MIRROR_LEVELS];

	descend(mirror, address, links);
	return *links[0] ? &(*links[0])->range : NULL;
}

const struct memory_range *mirror_find(const struct mirror *mirror, uint64_t address)
{
	struct mirror_node *const *level = mirror->first;
	const struct mirror_node *last = NULL;

	for (unsigned i = mirror->n_levels; i-- > 0;)
		while (level[i] && level[i]->range.address <= address) {
			last = level[i];
			level = last->next;
		}
	if (last && (last->range.address == address ||
			    address - last->range.address < last->range.size))
		return &last->range;
	return NULL;
}

bool mirror_remove(struct mirror *mirror, uint64_t address)
{
	struct mirror_node **links[MIRROR_LEVELS];
	struct mirror_node *node;

	descend(mirror, address, links);
	node = *links[0];
	if (!node || node->range.address != address)
		return false;
	for (unsigned i = 0; i < node->n_levels; i++)
		*links[i] = node->next[i];
	free(node);
	return true;
}
