/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program's own memory that it registers. The server pins shared memory at an
 * alias. Private memory is only recorded, because no other process can pin it, until
 * the program asks for its device pointer. Any thread of the application.
 *
 * Invariant: the program's pages move only for cuMemHostGetDevicePointer(), and back
 * when the registration ends. The GPU never accesses memory without an alias; copies of
 * such memory go through staging. An alias is in the map of this process's memory as long
 * as the server has it. This process made its pages resident, so that they are charged to it.
 */

#include "registered.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "address_map.h"
#include "calls_memory.h"
#include "exchange.h"
#include "frame.h"
#include "lock.h"
#include "client/util/log.h"
#include "client/util/mapping.h"
#include "client/transport/reconnect.h"
#include "client/stream/stream.h"
#include "send_memory.h"

#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
		CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static struct lock registered_lock = LOCK_INIT(REGISTERED);
static struct address_map registered;
/* One range at a time gets an alias late. */
static struct lock reach_lock = LOCK_INIT(REACH);
static _Atomic uint32_t n_aliases; /* 0 in most programs, so that copies need no lookup */

static CUresult send_alias(
	const struct memory_range *range, const struct mapping *mapping, uint64_t *ret_address)
{
	const struct frame_memory frame = {
		.head = frame_head(FRAME_MEMORY, 1),
		.address = mapping->offset,
		.size = range->size,
	};
	CUresult result;

	lock_hold(&server.sending);
	result = reconnect_send_frame(&server, &frame, mapping->fd);
	if (result == CUDA_SUCCESS)
		result = send_host_alias(range->context->device->index, mapping->filesystem,
			mapping->inode, mapping->offset, range->size, ret_address);
	return result;
}

static const char *why_not(int r)
{
	switch (r) {
	case -EINVAL:
		return "it is not a writable shared mapping";
	case -ENOTSUP:
		return "the mapped file is not a file in memory";
	case -ENOENT:
		return "no descriptor or name leads to the mapped file";
	case -EACCES:
		return "the mapped file is not open for writing";
	default:
		return "its pages cannot be made resident";
	}
}

static void log_copied(const struct memory_range *range, const char *why)
{
	log_info("the GPU cannot access memory registered at %#llx, which is copied instead: %s",
		(unsigned long long)range->address, why);
}

/* For a range whose file is known; false: the range has no alias. */
static bool alias_new_of(struct memory_range *range, const struct mapping *mapping)
{
	struct memory_range alias = *range;
	int r = mapping_populate(range->address, range->size);

	alias.kind = MEMORY_ALIAS;
	alias.other = range->address;
	if (r < 0 || send_alias(range, mapping, &alias.address) != CUDA_SUCCESS) {
		log_copied(range, r < 0 ? why_not(r) : "the server did not pin it");
		return false;
	}
	if (memory_add(&alias) != CUDA_SUCCESS) {
		(void)send_host_alias_end(alias.address);
		return false;
	}
	range->other = alias.address;
	range->id = alias.id;
	return true;
}

/*
 * Gives a registered range its alias, if the server can get the file behind it, and
 * adds the alias to the map with the same context and ID. Otherwise `range->other'
 * stays 0, and the log says why.
 */
static void alias_new(struct memory_range *range)
{
	_cleanup_(mapping_close) struct mapping mapping;
	int r = mapping_open(range->address, range->size, &mapping);

	if (r == 0)
		(void)alias_new_of(range, &mapping);
	else
		log_copied(range, why_not(r));
}

/* Called after all work that uses it is done. */
static CUresult alias_end(uint64_t address)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (memory_remove(address, MEMORY_KIND(MEMORY_ALIAS), &range))
		result = send_host_alias_end(address);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

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
