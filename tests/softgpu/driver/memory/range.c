/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of memory that the GPU can reach, sorted by address.
 *
 * Written in any thread under the driver's lock and this file's lock. Read under
 * either; running kernels use this file's. Ranges never touch each other.
 */

#include <string.h>

#include "memory.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct range **ranges;
static size_t n_ranges, n_space;

/* The index of the first range that ends after `address'. */
static size_t place_of(uint64_t address)
{
	size_t low = 0, high = n_ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges[middle]->end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool range_overlaps(uint64_t start, uint64_t end)
{
	size_t place = place_of(start);

	return place < n_ranges && ranges[place]->start < end;
}

static bool ranges_grow(void)
{
	struct range **grown;

	if (n_ranges < n_space)
		return true;
	grown = realloc(ranges, (n_space * 2 + 64) * sizeof(struct range *));
	if (!grown)
		return false;
	ranges = grown;
	n_space = n_space * 2 + 64;
	return true;
}

int range_add(const struct range *range, struct range **ret_range)
{
	struct range *copy;
	size_t place;
	bool has_space;

	if (range_overlaps(range->start, range->end))
		return -EEXIST;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *range;
	copy->id = ++driver.last_id;
	pthread_rwlock_wrlock(&lock);
	has_space = ranges_grow();
	if (has_space) {
		place = place_of(range->start);
		memmove(&ranges[place + 1], &ranges[place],
			(n_ranges - place) * sizeof(struct range *));
		ranges[place] = copy;
		n_ranges++;
	}
	pthread_rwlock_unlock(&lock);
	if (!has_space) {
		free(copy);
		return -ENOMEM;
	}
	*ret_range = copy;
	return 0;
}

void range_remove(uint64_t start)
{
	size_t place = place_of(start);
	struct range *range = ranges[place];

	pthread_rwlock_wrlock(&lock);
	n_ranges--;
	memmove(&ranges[place], &ranges[place + 1], (n_ranges - place) * sizeof(struct range *));
	pthread_rwlock_unlock(&lock);
	free(range);
}

void range_set_access(struct range *range, unsigned flags)
{
	pthread_rwlock_wrlock(&lock);
	range->flags = flags;
	range->is_accessible = flags != 0;
	pthread_rwlock_unlock(&lock);
}

struct range *range_next(uint64_t address)
{
	size_t place = place_of(address);

	return place < n_ranges ? ranges[place] : NULL;
}

struct range *range_find(uint64_t address)
{
	struct range *range = range_next(address);

	return range && range->start <= address ? range : NULL;
}

bool range_is_hidden(uint64_t address)
{
	const struct range *range = range_find(address);

	return range && !range->is_sync && range->kind != RANGE_HOST &&
	       range->kind != RANGE_REGISTERED && range->kind != RANGE_MANAGED;
}

bool host_owns(uint64_t address)
{
	const struct range *range = range_find(address);

	return !range || range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED;
}

bool range_is_shareable(const struct range *range)
{
	return range->kind == RANGE_DEVICE && !range->is_pooled && !range->graph_memory &&
	       !range->is_freeing;
}

bool range_is_reached(const struct range *range)
{
	return range->is_accessible || range->kind != RANGE_HOST;
}

bool range_is_managed(uint64_t address)
{
	const struct range *range = range_find(address);

	return range && range->kind == RANGE_MANAGED;
}

bool range_is_registered(uint64_t address)
{
	const struct range *range;
	bool is_registered;

	pthread_rwlock_rdlock(&lock);
	range = range_find(address);
	is_registered = range && range->kind == RANGE_REGISTERED;
	pthread_rwlock_unlock(&lock);
	return is_registered;
}

/*
 * Mapped memory of a device, and memory of a host pool, is reachable for the devices that the
 * program has named.
 */
static bool range_admits(const struct range *range, const struct device *device)
{
	unsigned shift = (unsigned)(device - driver.devices) * ACCESS_BITS;
	bool is_limited = (range->kind == RANGE_MAPPED && range->device) ||
			  (range->kind == RANGE_HOST && range->is_pooled);

	return !is_limited || range->flags >> shift & ACCESS_MASK;
}

/* `device' NULL: any device. */
static bool reaches(uint64_t address, uint64_t end, const struct device *device)
{
	for (size_t place = place_of(address); place < n_ranges; place++) {
		const struct range *range = ranges[place];

		if (range->start > address || !range->is_accessible ||
			(device && !range_admits(range, device)))
			return false;
		if (range->end >= end)
			return true;
		if (range->kind != RANGE_MAPPED)
			return false;
		address = range->end;
	}
	return false;
}

bool range_reaches(uint64_t address, uint64_t size, const struct device *device)
{
	bool is_reached;

	if (size > UINT64_MAX - address)
		return false;
	pthread_rwlock_rdlock(&lock);
	is_reached = reaches(address, address + size, device);
	pthread_rwlock_unlock(&lock);
	return is_reached;
}

bool range_lookup(void *user, uint64_t address, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct range *range;
	bool is_found;

	pthread_rwlock_rdlock(&lock);
	range = range_find(address);
	is_found = range && range->is_accessible && range_admits(range, user);
	if (is_found) {
		*ret_start = range->start;
		*ret_end = range->end;
	}
	pthread_rwlock_unlock(&lock);
	return is_found;
}
