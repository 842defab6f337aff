/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The map of this process's memory. Any thread of the application.
 *
 * Invariant: a range is removed from the map before the server is told of its end.
 * So an address that the server reuses is never in the map twice.
 */

#include "memory.h"

#include <stdatomic.h>

#include "address_map.h"
#include "lock.h"
#include "pool.h"
#include "client/util/log.h"

static struct lock memory_map_lock = LOCK_INIT(MEMORY_MAP);
static struct address_map memory_map;
static _Atomic uint64_t last_id;

bool memory_find(uint64_t address, struct memory_range *ret_range)
{
	const struct memory_range *range;

	lock_hold(&memory_map_lock);
	range = address_map_find(&memory_map, address);
	if (range)
		*ret_range = *range;
	return range;
}

static bool is_from(const struct memory_range *range, enum pool_memory memory)
{
	return range->kind == MEMORY_POOLED && range->pool->memory == memory;
}

bool memory_is_pinned(const struct memory_range *range)
{
	return range->kind == MEMORY_PINNED || is_from(range, POOL_PINNED);
}

bool memory_is_managed(const struct memory_range *range)
{
	return range->kind == MEMORY_MANAGED || is_from(range, POOL_MANAGED);
}

/* Whether one of the devices may access it, as far as the program decides that. */
static bool memory_admits(const struct memory_range *range, uint64_t devices)
{
	if (range->kind == MEMORY_MAPPED)
		return range->readers & devices;
	return !is_from(range, POOL_PINNED) ||
	       atomic_load_explicit(&range->pool->granted, memory_order_relaxed) & devices;
}

bool memory_is_admitted(const struct memory_range *range)
{
	return memory_admits(range, UINT64_MAX);
}

/*
 * Whether one of the devices in `devices' may access all of it. `ret_first', if not
 * NULL, is the range of the first byte.
 */
static bool memory_covers(
	uint64_t address, uint64_t size, uint64_t devices, struct memory_range *ret_first)
{
	const struct memory_range *range;
	uint64_t rest = size;

	lock_hold(&memory_map_lock);
	do {
		uint64_t span;

		range = address_map_find(&memory_map, address);
		if (!range || !memory_admits(range, devices))
			break;
		if (ret_first && rest == size)
			*ret_first = *range;
		span = range->address + range->size - address;
		if (span < rest && range->kind != MEMORY_MAPPED)
			break;
		address += span;
		rest -= MIN(span, rest);
	} while (rest > 0);
	return rest == 0 && range;
}

bool memory_contains(uint64_t address, uint64_t size)
{
	return memory_covers(address, size, UINT64_MAX, NULL);
}

bool memory_find_whole(uint64_t address, uint64_t size, struct memory_range *ret_range)
{
	return memory_covers(address, size, UINT64_MAX, ret_range);
}

bool memory_reaches(uint32_t device, uint64_t address, uint64_t size)
{
	return memory_covers(address, size, 1ull << device, NULL);
}

static bool is_device_memory(const struct memory_range *range)
{
	switch (range->kind) {
	case MEMORY_ALLOCATED:
	case MEMORY_GRAPH:
	case MEMORY_MAPPED:
		return true;
	case MEMORY_POOLED:
		return range->pool->memory == POOL_OF_DEVICE;
	default:
		return false;
	}
}

/* The first range with a byte in the page that begins at `address'. NULL: none. */
static const struct memory_range *range_in_page(uint64_t address)
{
	const struct memory_range *range = address_map_find(&memory_map, address);

	if (!range)
		range = address_map_next(&memory_map, address);
	return range && range->address < address + MEMORY_PAGE ? range : NULL;
}

bool memory_has_pages(uint64_t address, uint64_t size)
{
	uint64_t at = address, end = address + size;

	if (end < address)
		return false;
	lock_hold(&memory_map_lock);
	while (at < end) {
		const struct memory_range *range = range_in_page(at);

		if (!range || !is_device_memory(range))
			break;
		at = ALIGN_UP(range->address + range->size, MEMORY_PAGE);
		/* It may begin with the end of another allocation; only mappings go on. */
		if (range->kind != MEMORY_MAPPED && at != address + MEMORY_PAGE)
			break;
	}
	return at >= end;
}

bool memory_overlaps(uint64_t address, uint64_t size)
{
	const struct memory_range *next;

	lock_hold(&memory_map_lock);
	next = address_map_next(&memory_map, address);
	return address_map_find(&memory_map, address) || (next && next->address - address < size);
}

bool memory_set_exported(uint64_t address, enum memory_kind kind)
{
	struct memory_range *range;
	bool is_there;

	lock_hold(&memory_map_lock);
	range = (struct memory_range *)address_map_find(&memory_map, address);
	is_there = range && range->address == address && range->kind == kind;
	if (is_there)
		range->flags |= MEMORY_EXPORTED;
	return is_there;
}

void memory_set_sync(uint64_t address, bool is_sync)
{
	struct memory_range *range;

	lock_hold(&memory_map_lock);
	range = (struct memory_range *)address_map_find(&memory_map, address);
	if (range)
		range->is_sync = is_sync;
}

const struct device *memory_device(const struct memory_range *range)
{
	return range->pool && range->pool->device ? range->pool->device : range->context->device;
}

static void set_bit(uint64_t *bits, uint64_t bit, bool is_set)
{
	*bits = is_set ? *bits | bit : *bits & ~bit;
}

void memory_set_access(uint64_t address, uint64_t size, uint32_t device, CUmemAccess_flags flags)
{
	uint64_t bit = 1ull << device;
	struct memory_range *range;

	lock_hold(&memory_map_lock);
	for (uint64_t at = address; at < address + size; at += range->size) {
		range = (struct memory_range *)address_map_find(&memory_map, at);
		if (!range)
			break;
		set_bit(&range->readers, bit, flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
		set_bit(&range->writers, bit, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
}

CUmemAccess_flags memory_get_access(const struct memory_range *range, uint32_t device)
{
	uint64_t bit = 1ull << device;

	if (range->writers & bit)
		return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return range->readers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool memory_find_start(uint64_t address, unsigned kinds, struct memory_range *ret_range)
{
	return memory_find(address, ret_range) && ret_range->address == address &&
	       (kinds & MEMORY_KIND(ret_range->kind));
}

bool memory_next(uint64_t address, struct memory_range *ret_range)
{
	const struct memory_range *range;

	lock_hold(&memory_map_lock);
	range = address_map_find(&memory_map, address);
	if (!range)
		range = address_map_next(&memory_map, address);
	if (range)
		*ret_range = *range;
	return range;
}

bool memory_remove(uint64_t address, unsigned kinds, struct memory_range *ret_range)
{
	const struct memory_range *range;
	bool is_removed;

	lock_hold(&memory_map_lock);
	range = address_map_find(&memory_map, address);
	is_removed = range && range->address == address && (kinds & MEMORY_KIND(range->kind));
	if (is_removed) {
		*ret_range = *range;
		address_map_remove(&memory_map, address);
	}
	return is_removed;
}

uint64_t memory_new_id(void)
{
	return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
}

CUresult memory_add(struct memory_range *range)
{
	int r;

	lock_take(&memory_map_lock);
	range->id = memory_new_id();
	r = address_map_add(&memory_map, range);
	lock_release(&memory_map_lock);
	if (r == 0)
		return CUDA_SUCCESS;
	if (r == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	log_error(
		"the server returned the address %#llx twice", (unsigned long long)range->address);
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult memory_add_variable(
	struct context *context, const void *owner, uint64_t address, uint64_t size)
{
	struct memory_range range = {
		.address = address,
		.size = size,
		.context = context,
		.owner = owner,
		.kind = MEMORY_VARIABLE,
	};
	struct memory_range there;

	if (size == 0 || memory_find(address, &there))
		return CUDA_SUCCESS;
	return memory_add(&range);
}

/* Memory of pools belongs to no context, as in driver 580: the program frees it. */
static bool ends_with_context(const struct memory_range *range, const struct context *context)
{
	return range->context == context && !range->owner && range->kind != MEMORY_POOLED;
}

bool memory_take(
	uint64_t *at, const struct context *context, const void *owner, struct memory_range *ret)
{
	const struct memory_range *range;
	bool is_found = false;

	lock_hold(&memory_map_lock);
	while (!is_found && (range = address_map_next(&memory_map, *at))) {
		*at = range->address + 1;
		is_found = context ? ends_with_context(range, context) : range->owner == owner;
		if (!is_found)
			continue;
		*ret = *range;
		address_map_remove(&memory_map, range->address);
	}
	return is_found;
}
