/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arenas: chunks of memory at addresses that name their owner. A worker.
 *
 * Invariant: chunk_of[] names exactly the mapped chunks, and a page is taken if and only if
 * it belongs to a chunk.
 */

#include "arena.h"

#include <string.h>

#include "chunk.h"
#include "lock.h"
#include "server/util/bitmap.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/driver/owner.h"
#include "server/driver/va_space.h"

static CUresult device_claim(struct arena *arena)
{
	return va_space_claim(arena->base, arena->size);
}

static void device_disclaim(struct arena *arena, bool device_lost)
{
	if (!device_lost)
		va_space_free(arena->base, arena->size);
}

/* Takes VA windows whose addresses the driver provides. */
static CUresult arena_reserve(struct arena *arena, struct owner owner, uint32_t from)
{
	for (int i = 0; i < OWNER_TRIES; i++) {
		int va_window = owner_take(arena->taken, owner, from, arena->n_va_windows);
		CUresult result;

		if (va_window < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		arena->va_window = (uint32_t)va_window;
		arena->base = owner_address(arena->va_window);
		result = arena->backing->claim(arena);
		if (result == CUDA_SUCCESS)
			return CUDA_SUCCESS;
		owner_give_back(arena->taken, arena->va_window, arena->n_va_windows);
		if (result_is_fault(result))
			return result;
		from = arena->va_window + arena->n_va_windows;
	}
	log_line("Found no addresses for %llu MiB in %d attempts",
		(unsigned long long)arena->size >> 20, OWNER_TRIES);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult arena_init_backed(struct arena *arena, const struct arena_backing *backing,
	struct account *account, struct owner owner, uint32_t from, uint64_t size, uint64_t page)
{
	CUresult result;

	*arena = (struct arena){
		.backing = backing,
		.account = account,
		.device = device_get(owner.device),
		.size = size,
		.n_va_windows = (uint32_t)(size >> VA_WINDOW_SHIFT),
		.page = page,
		.n_pages = (uint32_t)(size / page),
	};
	arena->taken = account_alloc(
		account, BITS_WORDS(arena->n_pages) * sizeof(uint64_t), KEPT_RESERVATION);
	arena->chunk_of = account_alloc(account, arena->n_pages * sizeof(struct chunk *), 0);
	result = arena->taken && arena->chunk_of ? arena_reserve(arena, owner, from)
						 : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		account_free(arena->taken);
		account_free(arena->chunk_of);
		*arena = (struct arena){0};
	}
	return result;
}

static void chunk_free(struct chunk *chunk)
{
	account_free(chunk->used);
	account_free(chunk->last);
	account_free(chunk);
}

static uint32_t arena_page_of(const struct arena *arena, uint64_t address)
{
	return (uint32_t)((address - arena->base) / arena->page);
}

static void set_pages(struct arena *arena, struct chunk *chunk, bool is_mapped)
{
	uint32_t first = arena_page_of(arena, chunk->address);
	uint32_t n = (uint32_t)(chunk->size / arena->page);

	bitmap_fill(arena->taken, first, n, is_mapped);
	for (uint32_t i = first; i < first + n; i++)
		arena->chunk_of[i] = is_mapped ? chunk : NULL;
}

static void set_unused(struct arena *arena, struct chunk *chunk, bool is_free)
{
	uint64_t present = chunk->size - chunk->away, more = is_free ? present : -present;

	if (chunk->is_free == is_free)
		return;
	chunk->is_free = is_free;
	arena->unused_bytes += more;
	if (arena->device)
		atomic_fetch_add(&arena->device->unused, more);
	if (arena->device && arena->is_ending)
		atomic_fetch_add(&arena->device->closing, more);
}

static void part_unback(struct arena *arena, const struct part *part)
{
	arena->backing->unback(arena, part->address, part->size, part->handle);
}

void part_leave(struct arena *arena, struct part *part)
{
	part_unback(arena, part);
	part->is_away = true;
	part->chunk->away += part->size;
	arena->away += part->size;
	device_quota_leave(arena->memory, part->size);
}

/*
 * A query of free memory counts each chunk exactly once, either as unused or as free in the
 * driver.
 */
static void give_back(struct arena *arena, struct chunk *chunk)
{
	if (arena->device)
		lock_take(&arena->device->giving_back);
	each_part_of(chunk, part) if (!part->is_away) part_unback(arena, part);
	set_unused(arena, chunk, false);
	if (arena->device)
		lock_release(&arena->device->giving_back);
}

/* `is_kept': a descriptor may hold its memory. */
static void chunk_refund(struct arena *arena, struct chunk *chunk, bool is_kept)
{
	arena->away -= chunk->away;
	device_quota_refund_away(arena->memory, chunk->away);
	if (is_kept)
		device_quota_keep(arena->memory, chunk->size - chunk->away);
	else
		device_quota_refund(arena->memory, chunk->size - chunk->away);
	each_part_of(chunk, part) host_store_give(&part->stored);
}

/* The chunk is on no list. */
static void chunk_end(struct arena *arena, struct chunk *chunk, bool device_lost)
{
	set_pages(arena, chunk, false);
	if (device_lost)
		set_unused(arena, chunk, false);
	else
		give_back(arena, chunk);
	chunk_refund(arena, chunk, chunk->is_exported && !arena->is_ending);
	arena->mapped -= chunk->size;
	chunk_free(chunk);
}

/* Grants access to the arena's own GPU and to the others. */
static CUresult grant_all_access(const struct arena *arena, uint64_t address, uint64_t size)
{
	CUresult result = va_space_grant_access(
		address, size, arena->device->handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

	for (uint64_t others = arena->others; others && result == CUDA_SUCCESS;
		others &= others - 1)
		result = va_space_grant_access(address, size,
			device_get((uint32_t)__builtin_ctzll(others))->handle,
			CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return result;
}

/* A part that is away gets the access when it is back. */
static CUresult chunk_grant_access(const struct chunk *chunk, const struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	each_part_of(chunk, part) if (!part->is_away && result == CUDA_SUCCESS) result =
		va_space_grant_access(part->address, part->size, device->handle,
			CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return result;
}

CUresult arena_grant_access(struct arena *arena, const struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < arena->n_pages && result == CUDA_SUCCESS; i++) {
		const struct chunk *chunk = chunk_at(arena, i);

		if (chunk)
			result = chunk_grant_access(chunk, device);
	}
	if (result == CUDA_SUCCESS)
		arena->others |= 1ull << device->ordinal;
	return result;
}

static CUresult device_map(
	struct arena *arena, uint64_t address, uint64_t size, CUmemGenericAllocationHandle handle)
{
	CUresult result = va_space_map(address, size, handle);

	if (result == CUDA_SUCCESS) {
		result = grant_all_access(arena, address, size);
		if (result != CUDA_SUCCESS)
			va_space_unmap(address, size);
	}
	if (result != CUDA_SUCCESS)
		cuda.cuMemRelease(handle);
	return result;
}

static CUresult device_back(struct arena *arena, uint64_t address, uint64_t size,
	CUmemGenericAllocationHandle *ret_handle)
{
	const CUmemAllocationProp prop = device_memory(arena->device);
	CUresult result = cuda.cuMemCreate(ret_handle, size, &prop, 0);

	return result == CUDA_SUCCESS ? device_map(arena, address, size, *ret_handle) : result;
}

static void device_unback(_unused_ struct arena *arena, uint64_t address, uint64_t size,
	CUmemGenericAllocationHandle handle)
{
	va_space_unmap(address, size);
	cuda.cuMemRelease(handle);
}

static const struct arena_backing device_backing = {
	device_claim,
	device_disclaim,
	device_back,
	device_unback,
	device_map,
	.part = ARENA_PART,
	.kept = KEPT_ALLOCATION + KEPT_MAPPING,
};

CUresult arena_init(struct arena *arena, struct device *device, uint32_t session,
	struct account *account, uint32_t from)
{
	return arena_init_backed(arena, &device_backing, account,
		(struct owner){session, device->ordinal}, from,
		ALIGN_UP(device->facts.total_memory, VA_WINDOW),
		MAX(device->granularity, (uint64_t)ARENA_ALIGN));
}

/* Takes a free chunk of exactly this size off the free list. NULL: there is none. */
static struct chunk *free_list_take(struct arena *arena, uint64_t size)
{
	for (struct chunk **link = &arena->spare; *link; link = &(*link)->next) {
		struct chunk *chunk = *link;

		if (chunk->size != size)
			continue;
		*link = chunk->next;
		chunk->next = NULL;
		set_unused(arena, chunk, false);
		return chunk;
	}
	return NULL;
}

static uint32_t count_parts(const struct arena *arena, uint64_t size)
{
	const uint64_t part = arena->backing->part;

	return part > 0 ? (uint32_t)(ALIGN_UP(size, part) / part) : 1;
}

struct chunk *chunk_begin(struct arena *arena, uint32_t page, uint64_t size)
{
	const uint32_t n = count_parts(arena, size);
	struct chunk *chunk = account_alloc(
		arena->account, sizeof(*chunk) + n * sizeof(struct part), n * arena->backing->kept);
	uint64_t offset = 0;

	if (!chunk)
		return NULL;
	if (!device_quota_charge(arena->memory, size)) {
		chunk_free(chunk);
		return NULL;
	}
	chunk->address = arena->base + (uint64_t)page * arena->page;
	chunk->size = size;
	chunk->n_parts = n;
	each_part_of(chunk, part)
	{
		part->chunk = chunk;
		part->address = chunk->address + offset;
		part->size = n > 1 ? MIN(arena->backing->part, size - offset) : size;
		offset += part->size;
	}
	return chunk;
}

void chunk_complete(struct arena *arena, struct chunk *chunk)
{
	arena->mapped += chunk->size;
	set_pages(arena, chunk, true);
}

void chunk_abandon(struct arena *arena, struct chunk *chunk, uint32_t n_backed)
{
	for (uint32_t i = 0; i < n_backed; i++)
		if (!chunk->parts[i].is_away)
			part_unback(arena, &chunk->parts[i]);
	chunk_refund(arena, chunk, false);
	chunk_free(chunk);
}

/* With new memory. */
static CUresult chunk_new(
	struct arena *arena, uint32_t page, uint64_t size, struct chunk **ret_chunk)
{
	struct chunk *chunk = chunk_begin(arena, page, size);

	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	each_part_of(chunk, part)
	{
		CUresult result =
			arena->backing->back(arena, part->address, part->size, &part->handle);

		if (result == CUDA_SUCCESS)
			continue;
		chunk_abandon(arena, chunk, (uint32_t)(part - chunk->parts));
		return result;
	}
	chunk_complete(arena, chunk);
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

/* `size' is a multiple of the page size. The chunk is on no list. */
static CUresult chunk_get(struct arena *arena, uint64_t size, struct chunk **ret_chunk)
{
	struct chunk *chunk = free_list_take(arena, size);
	int64_t page;

	if (chunk) {
		*ret_chunk = chunk;
		return CUDA_SUCCESS;
	}
	page = bitmap_find_clear(arena->taken, arena->n_pages, (uint32_t)(size / arena->page));
	return page < 0 ? CUDA_ERROR_OUT_OF_MEMORY
			: chunk_new(arena, (uint32_t)page, size, ret_chunk);
}

/* Bytes that are away need not come back. */
void chunk_unuse(struct arena *arena, struct chunk *chunk)
{
	if (chunk->away > 0) {
		chunk_end(arena, chunk, false);
		return;
	}
	set_unused(arena, chunk, true);
	chunk->is_shared = false;
	LIST_PUSH(arena->spare, chunk);
}

bool chunk_share(struct arena *arena, struct chunk *chunk)
{
	uint64_t bytes;

	chunk->n_slots = (uint32_t)(chunk->size / ARENA_ALIGN);
	bytes = BITS_WORDS(chunk->n_slots) * sizeof(uint64_t);
	chunk->n_slots_used = 0;
	if (!chunk->used)
		chunk->used = account_alloc(arena->account, bytes, 0);
	if (!chunk->last)
		chunk->last = account_alloc(arena->account, bytes, 0);
	if (!chunk->used || !chunk->last)
		return false;
	chunk->is_shared = true;
	LIST_PUSH(arena->shared, chunk);
	return true;
}

/* Cuts a piece off a shared chunk. False: it has no space for the piece. */
static bool chunk_cut(struct chunk *chunk, uint32_t n_slots, uint64_t *ret_address)
{
	int64_t slot;

	if (n_slots > chunk->n_slots - chunk->n_slots_used)
		return false;
	slot = bitmap_find_clear(chunk->used, chunk->n_slots, n_slots);
	if (slot < 0)
		return false;
	bitmap_fill(chunk->used, (uint32_t)slot, n_slots, true);
	bit_set(chunk->last, (uint32_t)slot + n_slots - 1, true);
	chunk->n_slots_used += n_slots;
	*ret_address = chunk->address + (uint64_t)slot * ARENA_ALIGN;
	return true;
}

static CUresult alloc_small(struct arena *arena, uint64_t size, uint64_t *ret_address)
{
	uint32_t n_slots = (uint32_t)(ALIGN_UP(size, ARENA_ALIGN) / ARENA_ALIGN);
	struct chunk *chunk;
	CUresult result;

	for (chunk = arena->shared; chunk; chunk = chunk->next)
		if (chunk_cut(chunk, n_slots, ret_address))
			return CUDA_SUCCESS;
	result = chunk_get(arena, arena->page, &chunk);
	if (result != CUDA_SUCCESS)
		return result;
	if (!chunk_share(arena, chunk)) {
		chunk_unuse(arena, chunk);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	chunk_cut(chunk, n_slots, ret_address);
	return CUDA_SUCCESS;
}

CUresult arena_alloc(struct arena *arena, uint64_t size, uint64_t *ret_address)
{
	struct chunk *chunk;
	CUresult result;

	if (size > arena->size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size <= arena->page / 2)
		return alloc_small(arena, size, ret_address);
	result = chunk_get(arena, ALIGN_UP(size, arena->page), &chunk);
	if (result == CUDA_SUCCESS)
		*ret_address = chunk->address;
	return result;
}

static void unlink_shared(struct arena *arena, struct chunk *chunk)
{
	LIST_DROP(arena->shared, chunk);
}

static CUresult free_small(struct arena *arena, struct chunk *chunk, uint64_t address)
{
	uint64_t off = address - chunk->address;
	uint32_t slot = (uint32_t)(off / ARENA_ALIGN), end = slot;
	bool is_start =
		off % ARENA_ALIGN == 0 && bit_get(chunk->used, slot) &&
		(slot == 0 || !bit_get(chunk->used, slot - 1) || bit_get(chunk->last, slot - 1));

	if (!is_start)
		return CUDA_ERROR_INVALID_VALUE;
	while (!bit_get(chunk->last, end))
		end++;
	bit_set(chunk->last, end, false);
	bitmap_fill(chunk->used, slot, end + 1 - slot, false);
	chunk->n_slots_used -= end + 1 - slot;
	if (chunk->n_slots_used == 0) {
		unlink_shared(arena, chunk);
		chunk_unuse(arena, chunk);
	}
	return CUDA_SUCCESS;
}

CUresult arena_free(struct arena *arena, uint64_t address)
{
	struct chunk *chunk;

	if (!range_ok(address - arena->base, 1, arena->size))
		return CUDA_ERROR_INVALID_VALUE;
	chunk = arena->chunk_of[arena_page_of(arena, address)];
	if (!chunk || chunk->is_free)
		return CUDA_ERROR_INVALID_VALUE;
	if (chunk->is_shared)
		return free_small(arena, chunk, address);
	if (address != chunk->address)
		return CUDA_ERROR_INVALID_VALUE;
	chunk_unuse(arena, chunk);
	return CUDA_SUCCESS;
}

/* Keeps chunks that another session has open. */
void arena_trim(struct arena *arena)
{
	struct chunk **link = &arena->spare;

	while (*link) {
		struct chunk *chunk = *link;

		if (arena_sharing->is_open(chunk->address, chunk->size)) {
			link = &chunk->next;
			continue;
		}
		*link = chunk->next;
		chunk_end(arena, chunk, false);
	}
}

/*
 * The session has ended: counts all its memory as unused before freeing the first chunk, as
 * each chunk takes time.
 */
static void unuse_all_chunks(struct arena *arena)
{
	if (arena->device && !arena->is_ending)
		atomic_fetch_add(&arena->device->closing, arena->unused_bytes);
	arena->is_ending = true;
	arena->shared = arena->spare = NULL;
	for (uint32_t i = 0; i < arena->n_pages; i++) {
		struct chunk *chunk = chunk_at(arena, i);

		if (chunk)
			set_unused(
				arena, chunk, !arena_sharing->is_open(chunk->address, chunk->size));
	}
}

void arena_end_unshared(struct arena *arena)
{
	unuse_all_chunks(arena);
	for (uint32_t i = 0; i < arena->n_pages; i++) {
		struct chunk *chunk = arena->chunk_of[i];

		if (!chunk || arena_sharing->is_open(chunk->address, chunk->size))
			continue;
		/* Another session may have closed it since unuse_all_chunks(). */
		set_unused(arena, chunk, true);
		chunk_end(arena, chunk, false);
	}
}

void arena_fini(struct arena *arena, bool device_lost)
{
	if (!arena->chunk_of)
		return;
	if (!device_lost)
		unuse_all_chunks(arena);
	for (uint32_t i = 0; i < arena->n_pages; i++)
		if (arena->chunk_of[i])
			chunk_end(arena, arena->chunk_of[i], device_lost);
	arena->backing->disclaim(arena, device_lost);
	owner_give_back(arena->taken, arena->va_window, arena->n_va_windows);
	device_quota_unref(arena->memory);
	account_free(arena->taken);
	account_free(arena->chunk_of);
	account_free(arena->remains);
	*arena = (struct arena){0};
}

bool arena_chunk(
	const struct arena *arena, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	const struct chunk *chunk = NULL;

	if (range_ok(address - arena->base, 1, arena->size))
		chunk = arena->chunk_of[arena_page_of(arena, address)];
	if (!chunk || chunk->is_free)
		return false;
	*ret_start = chunk->address;
	*ret_size = chunk->size;
	return true;
}

void arena_set_exported(struct arena *arena, uint64_t address, uint64_t size)
{
	for (uint64_t at = address; at < address + size;) {
		struct chunk *chunk = arena->chunk_of[arena_page_of(arena, at)];

		chunk->is_exported = true;
		at = chunk->address + chunk->size;
	}
}

bool arena_has(const struct arena *arena, uint64_t address, uint64_t size)
{
	uint64_t at = address, end = address + size;

	if (!range_ok(address - arena->base, size, arena->size))
		return false;
	while (at < end) {
		const struct chunk *chunk = arena->chunk_of[arena_page_of(arena, at)];

		if (!chunk || chunk->is_free)
			return false;
		at = chunk->address + chunk->size;
	}
	return true;
}
