/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program's own memory that it registers. The server pins shared memory at an
 * alias. Private memory is only recorded, because no other process can pin it, until
 * the program asks for its device pointer. Any thread of the application.
 *
 * Invariant: the program's pages move only for cuMemHostGetDevicePointer(), and back
 * when the registration ends. The GPU never accesses memory without an alias; copies of
 * such memory go through staging.
 */

#include "registered.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "address_map.h"
#include "alias.h"
#include "client.h"
#include "exchange.h"
#include "lock.h"
#include "client/util/log.h"
#include "client/stream/stream.h"

#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
		CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static struct lock registered_lock = LOCK_INIT(REGISTERED);
static struct address_map registered;
/* One range at a time gets an alias late. */
static struct lock reach_lock = LOCK_INIT(REACH);
static _Atomic uint32_t n_aliases; /* 0 in most programs, so that copies need no lookup */

bool registered_find(uint64_t address, struct memory_range *ret_range)
{
	const struct memory_range *range;

	lock_hold(&registered_lock);
	range = address_map_find(&registered, address);
	if (range)
		*ret_range = *range;
	return range;
}

uint64_t registered_translate(uint64_t address, uint64_t size)
{
	struct memory_range range;

	if (likely(atomic_load_explicit(&n_aliases, memory_order_relaxed) == 0) ||
		!registered_find(address, &range) || range.other == 0 ||
		!range_ok(address - range.address, size, range.size))
		return address;
	return range.other + (address - range.address);
}

uint64_t registered_own(uint64_t address)
{
	struct memory_range range;

	if (!memory_find(address, &range) || range.kind != MEMORY_ALIAS)
		return address;
	return range.other + (address - range.address);
}

/* Under the lock. */
static void take_out(const struct memory_range *range)
{
	if (range->other)
		atomic_fetch_sub_explicit(&n_aliases, 1, memory_order_relaxed);
	address_map_remove(&registered, range->address);
}

/* Removes the next range of the context. */
static bool take_next(const struct context *context, uint64_t *at, struct memory_range *ret_range)
{
	const struct memory_range *range;
	bool is_found = false;

	lock_hold(&registered_lock);
	while (!is_found && (range = address_map_next(&registered, *at))) {
		*at = range->address + 1;
		is_found = range->context == context;
		if (is_found) {
			*ret_range = *range;
			take_out(range);
		}
	}
	return is_found;
}

void registered_end_context(const struct context *context)
{
	struct memory_range range;
	uint64_t at = 0;

	while (take_next(context, &at, &range))
		exchange_end(range.exchange);
}

/* Records the alias of a range; false: it is not registered any more. */
static bool set_alias(const struct memory_range *with_alias)
{
	struct memory_range *range;
	bool is_there;

	lock_hold(&registered_lock);
	range = (struct memory_range *)address_map_find(&registered, with_alias->address);
	is_there = range && range->address == with_alias->address && range->other == 0 &&
		   range->size == with_alias->size;
	if (is_there) {
		*range = *with_alias;
		atomic_fetch_add_explicit(&n_aliases, 1, memory_order_relaxed);
	}
	return is_there;
}

/* Under reach_lock. */
static CUresult exchange_and_alias(struct memory_range *range)
{
	_cleanup_(mapping_close) struct mapping mapping = {.fd = -EBADF};
	int r = exchange_new(range->address, range->size, &range->exchange, &mapping);

	if (r < 0) {
		log_refused("cuMemHostGetDevicePointer", exchange_why(r));
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (alias_new_of(range, &mapping) && set_alias(range))
		return CUDA_SUCCESS;
	if (range->other)
		(void)alias_end(range->other);
	exchange_end(range->exchange);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult registered_reach(uint64_t address)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	lock_hold(&reach_lock);
	if (registered_find(address, &range))
		result = range.other ? CUDA_SUCCESS : exchange_and_alias(&range);
	return result;
}

static bool overlaps_known(uint64_t address, uint64_t size)
{
	struct memory_range there;
	const struct memory_range *next;

	if (memory_find(address, &there))
		return true;
	lock_hold(&registered_lock);
	next = address_map_next(&registered, address);
	return address_map_find(&registered, address) || (next && next->address - address < size);
}

static CUresult registered_add(const struct memory_range *range)
{
	int r;

	lock_take(&registered_lock);
	r = address_map_add(&registered, range);
	if (r == 0 && range->other)
		atomic_fetch_add_explicit(&n_aliases, 1, memory_order_relaxed);
	lock_release(&registered_lock);
	if (r == 0)
		return CUDA_SUCCESS;
	return r == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Pages per call of mincore(). */
#define LOOK_PAGES 4096u

static bool pages_are_mapped(uintptr_t address, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = address & ~(page - 1), end = address + size;
	unsigned char present[LOOK_PAGES];

	for (; at < end; at += LOOK_PAGES * page)
		if (mincore((void *)at, MIN(end - at, LOOK_PAGES * page), present) < 0)
			return false;
	return true;
}

CUresult local_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct memory_range range = {
		.address = (uintptr_t)p,
		.size = bytesize,
		.kind = MEMORY_REGISTERED,
		.flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
		.context = context_current,
	};
	CUresult result;

	if (!p || bytesize == 0 || (Flags & ~(unsigned)REGISTER_FLAGS) ||
		!range_ok((uintptr_t)p, bytesize, UINTPTR_MAX))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!pages_are_mapped((uintptr_t)p, bytesize))
		return CUDA_ERROR_INVALID_VALUE;
	if (overlaps_known(range.address, bytesize))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	range.id = memory_new_id();
	alias_new(&range);
	result = registered_add(&range);
	if (result != CUDA_SUCCESS && range.other)
		(void)alias_end(range.other);
	return result;
}

/* Removes the range that begins there; false: another thread has removed it. */
static bool remove_range(uint64_t address, struct memory_range *ret_range)
{
	const struct memory_range *range;
	bool is_there;

	lock_hold(&registered_lock);
	range = address_map_find(&registered, address);
	is_there = range && range->address == address;
	if (is_there) {
		*ret_range = *range;
		take_out(range);
	}
	return is_there;
}

/* Memory without an alias is not in use after a copy of it has returned. */
CUresult local_cuMemHostUnregister(void *p)
{
	struct memory_range range;
	CUresult result = CUDA_SUCCESS;

	if (!registered_find((uintptr_t)p, &range))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range.address != (uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.other)
		result = streams_wait_device(range.context->device->index);
	if (result != CUDA_SUCCESS)
		return result;
	if (!remove_range((uintptr_t)p, &range))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range.other)
		result = alias_end(range.other);
	exchange_end(range.exchange);
	return result;
}
