/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arenas on their way to another server. A worker, or the thread of server/arrival.c.
 *
 * Invariant: a chunk in the other server is used, shared or exported as it was here. Unused chunks
 * stay behind.
 */

#include "chunk.h"
#include "store_file.h"
#include "server/util/bitmap.h"
#include "server/util/memory_file.h"
#include "server/util/pack.h"

/* Of the driver's memory, or of its bytes in the store. */
static int export_part(const struct part *part)
{
	int fd = -EBADF;

	if (part->is_away)
		return store_file_save(&part->stored, part->size);
	return cuda.cuMemExportToShareableHandle(&fd, part->handle,
		       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS
		       ? fd
		       : -EIO;
}

/* An arena of the host space has its own file. */
static int export_chunk(const struct arena *arena, const struct chunk *chunk, struct pack *pack)
{
	if (!arena->device)
		return 0;
	each_part_of(chunk, part)
	{
		int fd = export_part(part);

		if (fd < 0)
			return fd;
		pack_put_number(pack, part->is_away);
		pack_put_fd(pack, fd);
	}
	return 0;
}

static int pack_chunk(const struct arena *arena, const struct chunk *chunk, struct pack *pack)
{
	const size_t bytes = BITS_WORDS(chunk->n_slots) * sizeof(uint64_t);
	int r;

	pack_put_number(pack, (chunk->address - arena->base) / arena->page);
	pack_put_number(pack, chunk->size / arena->page);
	pack_put_number(pack, chunk->is_shared);
	pack_put_number(pack, chunk->is_exported);
	r = export_chunk(arena, chunk, pack);
	if (r == 0 && chunk->is_shared) {
		pack_put_number(pack, chunk->n_slots_used);
		pack_put(pack, chunk->used, bytes);
		pack_put(pack, chunk->last, bytes);
	}
	return r;
}

int arena_pack(const struct arena *arena, struct pack *pack)
{
	uint64_t n = 0;
	int r = 0;

	for (uint32_t i = 0; i < arena->n_pages; i++) {
		const struct chunk *chunk = chunk_at(arena, i);

		n += chunk && !chunk->is_free;
	}
	pack_put_number(pack, arena->page);
	pack_put_number(pack, n);
	for (uint32_t i = 0; i < arena->n_pages && r == 0; i++) {
		const struct chunk *chunk = chunk_at(arena, i);

		if (chunk && !chunk->is_free)
			r = pack_chunk(arena, chunk, pack);
	}
	return r;
}

/* As part_leave(). */
static int import_stored(struct arena *arena, struct part *part, int fd)
{
	int r = store_file_load(arena->account, fd, part->size, &part->stored);

	if (r < 0)
		return r;
	part->is_away = true;
	part->chunk->away += part->size;
	arena->away += part->size;
	device_quota_leave(arena->memory, part->size);
	return 0;
}

static int import_part(struct arena *arena, struct part *part, struct pack *pack)
{
	const bool is_away = pack_get_number(pack, 1);
	_cleanup_close_ int fd = pack_get_fd(pack);
	CUresult result;

	if (pack->is_bad)
		return -EBADMSG;
	if (is_away)
		return import_stored(arena, part, fd);
	if (cuda.cuMemImportFromShareableHandle(&part->handle, (void *)(uintptr_t)fd,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
		return -EIO;
	result = arena->backing->map(arena, part->address, part->size, part->handle);
	return result == CUDA_SUCCESS ? 0 : -ENOMEM;
}

static int check_part(const struct part *part, struct pack *pack)
{
	const bool is_away = pack_get_number(pack, 1);
	const int fd = pack_get_fd(pack);

	return pack->is_bad || (is_away && !memory_file_ok(fd, part->size)) ? -EBADMSG : 0;
}

/* Memory for a new chunk. An arena of the host space has its own, and that of arena_check() none.
 */
static int import_parts(struct arena *arena, struct chunk *chunk, struct pack *pack)
{
	each_part_of(chunk, part)
	{
		int r = 0;

		if (arena->device)
			r = import_part(arena, part, pack);
		else if (arena->backing->part > 0)
			r = check_part(part, pack);
		else if (arena->backing->back(arena, part->address, part->size, &part->handle) !=
			 CUDA_SUCCESS)
			r = -ENOMEM;
		if (r == 0)
			continue;
		chunk_abandon(arena, chunk, (uint32_t)(part - chunk->parts));
		return r;
	}
	chunk_complete(arena, chunk);
	return 0;
}

/* The number of slots in use must be that of the bits, which end within a piece. */
static bool slots_are_sound(const struct chunk *chunk)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < chunk->n_slots; i++) {
		bool is_used = bit_get(chunk->used, i);
		bool ends = i + 1 == chunk->n_slots || !bit_get(chunk->used, i + 1);

		if (bit_get(chunk->last, i) && !is_used)
			return false;
		if (is_used && ends && !bit_get(chunk->last, i))
			return false;
		n += is_used;
	}
	return n == chunk->n_slots_used && n > 0;
}

static int unpack_slots(struct arena *arena, struct chunk *chunk, struct pack *pack)
{
	size_t bytes;

	if (chunk->size != arena->page)
		return -EBADMSG;
	if (!chunk_share(arena, chunk))
		return -ENOMEM;
	bytes = BITS_WORDS(chunk->n_slots) * sizeof(uint64_t);
	chunk->n_slots_used = (uint32_t)pack_get_number(pack, chunk->n_slots);
	return pack_get(pack, chunk->used, bytes) && pack_get(pack, chunk->last, bytes) &&
			       slots_are_sound(chunk)
		       ? 0
		       : -EBADMSG;
}

/* Whether these pages of the arena are free. */
static bool pages_are_free(const struct arena *arena, uint64_t page, uint64_t n)
{
	if (n == 0 || n > arena->n_pages || page > arena->n_pages - n)
		return false;
	for (uint64_t i = page; i < page + n; i++)
		if (arena->chunk_of[i])
			return false;
	return true;
}

struct packed_chunk {
	uint64_t page, n_pages;
	bool is_shared, is_exported;
};

static int unpack_chunk(struct arena *arena, struct pack *pack)
{
	const struct packed_chunk packed = {
		.page = pack_get_number(pack, arena->n_pages),
		.n_pages = pack_get_number(pack, arena->n_pages),
		.is_shared = pack_get_number(pack, 1),
		.is_exported = pack_get_number(pack, 1),
	};
	struct chunk *chunk;
	int r;

	if (pack->is_bad || !pages_are_free(arena, packed.page, packed.n_pages))
		return -EBADMSG;
	chunk = chunk_begin(arena, (uint32_t)packed.page, packed.n_pages * arena->page);
	if (!chunk)
		return -ENOMEM;
	r = import_parts(arena, chunk, pack);
	if (r < 0)
		return r;
	chunk->is_exported = packed.is_exported;
	return packed.is_shared ? unpack_slots(arena, chunk, pack) : 0;
}

int arena_unpack(struct arena *arena, struct pack *pack)
{
	uint64_t page = pack_get_number(pack, arena->page);
	uint64_t n = pack_get_number(pack, arena->n_pages);
	int r = page == arena->page ? 0 : -EBADMSG;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = unpack_chunk(arena, pack);
	return pack->is_bad ? -EBADMSG : r;
}

/* ---- without memory */

static CUresult no_back(_unused_ struct arena *arena, _unused_ uint64_t address,
	_unused_ uint64_t size, _unused_ CUmemGenericAllocationHandle *ret_handle)
{
	return CUDA_SUCCESS;
}

static void no_unback(_unused_ struct arena *arena, _unused_ uint64_t address,
	_unused_ uint64_t size, _unused_ CUmemGenericAllocationHandle handle)
{
}

static void end_check(struct arena *arena)
{
	for (uint32_t i = 0; arena->chunk_of && i < arena->n_pages;) {
		struct chunk *chunk = chunk_at(arena, i);

		i += chunk ? (uint32_t)(chunk->size / arena->page) : 1;
		if (chunk)
			chunk_abandon(arena, chunk, 0);
	}
	account_free(arena->taken);
	account_free(arena->chunk_of);
}

int arena_check(
	struct account *account, uint64_t base, uint64_t size, bool is_host, struct pack *pack)
{
	const struct arena_backing backing = {
		.back = no_back, .unback = no_unback, .part = is_host ? 0 : ARENA_PART};
	struct arena arena = {.backing = &backing, .account = account, .base = base, .size = size};
	const size_t at = pack->at;
	int r = -ENOMEM;

	arena.page = pack_get_number(pack, size);
	if (arena.page < ARENA_ALIGN || arena.page % ARENA_ALIGN || size / arena.page > UINT32_MAX)
		return -EBADMSG;
	pack->at = at;
	arena.n_pages = (uint32_t)(size / arena.page);
	arena.taken = account_alloc(account, BITS_WORDS(arena.n_pages) * sizeof(uint64_t), 0);
	arena.chunk_of = account_alloc(account, arena.n_pages * sizeof(struct chunk *), 0);
	if (arena.taken && arena.chunk_of)
		r = arena_unpack(&arena, pack);
	end_check(&arena);
	return r;
}
