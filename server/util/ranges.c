/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A sorted array of ranges: look-up by bisection; an insertion moves the rest. A worker.
 *
 * Invariant: list[i].address + list[i].size <= list[i + 1].address.
 */

#include "ranges.h"

#include <string.h>

void ranges_fini(struct ranges *ranges)
{
	for (uint32_t i = 0; i < ranges->n; i++)
		account_free(ranges->list[i].bytes);
	account_free(ranges->list);
	*ranges = (struct ranges){.account = ranges->account};
}

/* The first range that begins after `address'. */
static uint32_t find_after(const struct ranges *ranges, uint64_t address)
{
	uint32_t low = 0, high = ranges->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->list[middle].address > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool is_same(const struct range *one, const struct range *other)
{
	return one->address == other->address && one->size == other->size &&
	       one->owner == other->owner;
}

int ranges_add(struct ranges *ranges, const struct range *range)
{
	uint32_t at = find_after(ranges, range->address);
	const struct range *before = at > 0 ? &ranges->list[at - 1] : NULL;
	struct range *list;

	if (before && is_same(before, range))
		return 0;
	if (before && before->size > range->address - before->address)
		return -EEXIST;
	if (ranges->list && at < ranges->n &&
		range->size > ranges->list[at].address - range->address)
		return -EEXIST;
	if (!account_grow_list(
		    ranges->account, &ranges->list, ranges->n, &ranges->n_max, sizeof(*list)))
		return -ENOMEM;
	list = ranges->list;
	memmove(list + at + 1, list + at, (ranges->n - at) * sizeof(*list));
	list[at] = *range;
	ranges->n++;
	return 0;
}

void ranges_remove(struct ranges *ranges, const void *owner)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ranges->n; i++)
		if (ranges->list[i].owner != owner)
			ranges->list[n++] = ranges->list[i];
		else
			account_free(ranges->list[i].bytes);
	ranges->n = n;
}

static struct range *find(const struct ranges *ranges, uint64_t address, uint64_t size)
{
	uint32_t at = find_after(ranges, address);
	struct range *range = at > 0 ? &ranges->list[at - 1] : NULL;

	return range && range_ok(address - range->address, size, range->size) ? range : NULL;
}

uint64_t ranges_address_of(const struct ranges *ranges, const void *owner, uint64_t real)
{
	for (uint32_t i = 0; i < ranges->n; i++)
		if (ranges->list[i].real == real && ranges->list[i].owner == owner)
			return ranges->list[i].address;
	return 0;
}

void ranges_note_graph(struct ranges *ranges, uint64_t address)
{
	struct range *range = find(ranges, address, 1);

	if (range)
		range->is_in_graph = true;
}

uint64_t ranges_find(const struct ranges *ranges, uint64_t address, uint64_t size)
{
	struct range *range = find(ranges, address, size);

	if (!range)
		return 0;
	range->state = RANGE_CHANGED;
	return range->real + (address - range->address);
}
