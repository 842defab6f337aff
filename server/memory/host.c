/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned host memory: regions, and their registered pieces. A worker.
 *
 * Invariant: a page whose bit is set in `pinned' belongs to a registered piece. Pieces of a
 * chunk begin at its start and at every multiple of HOST_PIECE in it. The server never reads
 * a byte of it.
 */

#include "host.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "alias.h"
#include "space.h"
#include "server/util/bitmap.h"
#include "server/util/pack.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/quiet.h"
#include "server/share/arena.h"
#include "server/stream/pending_wait.h"
#include "server/stream/stream.h"
#include "do_memory.h"

/* Pinned and unused memory beyond this is given back before more is pinned. */
#define UNUSED_MAX (64ull << 20)

_Static_assert(HOST_PIECE % HOST_PAGE == 0, "whole pages");

struct host_region {
	struct host_region *next;
	struct session *session; /* not owned */
	struct arena arena;
	uint64_t *pinned; /* one bit per page */
	int fd;           /* for the client, and for another server */
};

static struct host_region *region_of(struct arena *arena)
{
	return container_of(arena, struct host_region, arena);
}

static uint32_t host_page_of(const struct host_region *region, uint64_t address)
{
	return (uint32_t)((address - region->arena.base) / HOST_PAGE);
}

/* A core of the server contains no memory of clients. */
static CUresult host_claim(struct arena *arena)
{
	int *fd = &region_of(arena)->fd;
	int r = *fd < 0 ? shm_create_at("mps-pinned", arena->base, arena->size, fd)
			: shm_map_part(*fd, 0, arena->base, arena->size);

	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	madvise((void *)(uintptr_t)arena->base, arena->size, MADV_DONTDUMP);
	return CUDA_SUCCESS;
}

static void host_disclaim(struct arena *arena, _unused_ bool device_lost)
{
	munmap((void *)(uintptr_t)arena->base, arena->size);
}

/* The client makes the pages present, and the server then pins them. */
static CUresult host_back(_unused_ struct arena *arena, _unused_ uint64_t address,
	_unused_ uint64_t size, CUmemGenericAllocationHandle *ret_handle)
{
	*ret_handle = 0;
	return CUDA_SUCCESS;
}

static uint64_t piece_end(uint64_t at, uint64_t end)
{
	return MIN(ALIGN_UP(at + 1, HOST_PIECE), end);
}

static void set_pinned(struct host_region *region, uint64_t address, uint64_t end, bool value)
{
	bitmap_fill(region->pinned, host_page_of(region, address),
		(uint32_t)((end - address) / HOST_PAGE), value);
}

static void host_unback(struct arena *arena, uint64_t address, uint64_t size,
	_unused_ CUmemGenericAllocationHandle handle)
{
	struct host_region *region = region_of(arena);
	uint64_t end = address + size, next;

	for (uint64_t at = address; at < end; at = next) {
		next = piece_end(at, end);
		if (!bit_get(region->pinned, host_page_of(region, at)))
			continue;
		quiet_unpin(region->session, (void *)(uintptr_t)at);
		account_unkeep(region, KEPT_REGISTRATION);
		set_pinned(region, at, next, false);
	}
	/* Punches a hole into the memory: its pages are freed in all mappings. */
	madvise((void *)(uintptr_t)address, size, MADV_REMOVE);
}

static const struct arena_backing backing = {
	host_claim, host_disclaim, host_back, host_unback, .kept = 0};

static struct host_region *host_region_find(const struct session *session, uint64_t address)
{
	struct host_region *region = session->host_regions;

	while (region && !range_ok(address - region->arena.base, 1, region->arena.size))
		region = region->next;
	return region;
}

static void host_region_free(struct host_region *region, bool device_lost)
{
	arena_fini(&region->arena, device_lost);
	closep(&region->fd);
	account_free(region->pinned);
	account_free(region);
}

/* Takes `fd', its memory; negative: makes it. */
static CUresult region_new(struct session *session, uint64_t size, uint64_t after,
	struct device_quota *memory, int fd, struct host_region **ret_region)
{
	struct owner owner = {session->id, OWNER_HOST};
	struct host_region *region = account_alloc(session->account, sizeof(*region), 0);
	uint32_t from = 0;
	CUresult result;

	if (!region) {
		closep(&fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	region->session = session;
	region->fd = fd;
	if (after > HOST_SPACE && after < HOST_SPACE_END)
		from = owner_va_window(after);
	region->pinned =
		account_alloc(session->account, BITS_WORDS(size / HOST_PAGE) * sizeof(uint64_t), 0);
	result = region->pinned ? arena_init_backed(&region->arena, &backing, session->account,
					  owner, from, size, HOST_PAGE)
				: CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		host_region_free(region, false);
		return result;
	}
	region->arena.memory = device_quota_ref(memory);
	*ret_region = region;
	return CUDA_SUCCESS;
}

/* The session_device of the GPU whose limit counts the memory; NULL: no limit counts it. */
static CUresult find_payer(
	struct session *session, uint32_t payer, struct session_device **ret_sdev)
{
	*ret_sdev = NULL;
	return payer > 0 ? session_device_get_entered(session, payer - 1, ret_sdev) : CUDA_SUCCESS;
}

static bool is_at_limit(const struct session_device *payer, uint64_t size)
{
	return payer && device_quota_left(payer->memory) < ALIGN_UP(size, HOST_PAGE);
}

CUresult do_host_region(struct session *session, uint64_t size, uint64_t after, uint32_t payer,
	uint64_t *ret_address, uint64_t *ret_region_size)
{
	struct host_region *region;
	struct session_device *sdev;
	CUresult result = find_payer(session, payer, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	/* The client requests a region also when it has met its limit. */
	if (is_at_limit(sdev, size) && !lease_extend(session, sdev->device->ordinal, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = region_new(session, ALIGN_UP(size, VA_WINDOW), after, sdev ? sdev->memory : NULL,
		-EBADF, &region);
	if (result != CUDA_SUCCESS)
		return result;
	LIST_PUSH(session->host_regions, region);
	*ret_address = region->arena.base;
	*ret_region_size = region->arena.size;
	return session_send_memory(session, *ret_address, *ret_region_size, region->fd);
}

CUresult do_host_region_end(struct session *session, uint64_t address)
{
	struct host_region *region = host_region_find(session, address);

	if (!region || region->arena.base != address || region->arena.mapped > 0)
		return CUDA_ERROR_INVALID_VALUE;
	LIST_DROP(session->host_regions, region);
	pending_waits_forget_passed(session);
	host_region_free(region, false);
	return CUDA_SUCCESS;
}

static bool is_pinned(const struct host_region *region, uint64_t address, uint64_t size)
{
	uint32_t last = host_page_of(region, address + size - 1);

	for (uint32_t page = host_page_of(region, address); page <= last; page++)
		if (!bit_get(region->pinned, page))
			return false;
	return true;
}

bool host_has(const struct session *session, uint64_t address, uint64_t size)
{
	const struct host_region *region = host_region_find(session, address);
	uint64_t start, span;

	return region && size > 0 && arena_chunk(&region->arena, address, &start, &span) &&
	       range_ok(address - start, size, span) && is_pinned(region, address, size);
}

uint64_t host_cut(uint64_t address, uint64_t size)
{
	if (address < HOST_SPACE || address >= HOST_SPACE_END)
		return size;
	return MIN(size, piece_end(address, UINT64_MAX) - address);
}

uint64_t host_unused_of(const struct session *session, const struct device_quota *memory)
{
	uint64_t bytes = 0;

	for (struct host_region *region = session->host_regions; region; region = region->next)
		if (!memory || region->arena.memory == memory)
			bytes += region->arena.unused_bytes;
	return bytes;
}

static CUresult host_alloc(struct session *session, uint64_t size,
	const struct session_device *payer, struct host_region **ret_region, uint64_t *ret_address)
{
	const struct device_quota *memory = payer ? payer->memory : NULL;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	for (struct host_region *region = session->host_regions; region; region = region->next) {
		if (region->arena.memory != memory)
			continue;
		result = arena_alloc(&region->arena, size, ret_address);
		*ret_region = region;
		if (result == CUDA_SUCCESS)
			break;
	}
	return result;
}

CUresult do_host_alloc(struct session *session, uint64_t size, uint32_t payer,
	uint64_t *ret_address, uint64_t *ret_start, uint64_t *ret_span, uint32_t *ret_is_pinned)
{
	struct host_region *region = NULL;
	struct session_device *sdev;
	CUresult result = find_payer(session, payer, &sdev);

	if (result == CUDA_SUCCESS)
		result = host_alloc(session, size, sdev, &region, ret_address);
	for (unsigned i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && is_at_limit(sdev, size) &&
			     space_make(session, sdev, ALIGN_UP(size, HOST_PAGE), i);
		i++)
		result = host_alloc(session, size, sdev, &region, ret_address);
	if (result != CUDA_SUCCESS)
		return result;
	if (!arena_chunk(&region->arena, *ret_address, ret_start, ret_span))
		return CUDA_ERROR_UNKNOWN;
	*ret_is_pinned = is_pinned(region, *ret_start, *ret_span);
	if (!*ret_is_pinned && host_unused_of(session, NULL) > UNUSED_MAX && streams_poll(session))
		host_trim(session);
	return CUDA_SUCCESS;
}

bool host_is_present(uint64_t address, uint64_t size)
{
	unsigned char present[HOST_PIECE / 4096];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (mincore((void *)(uintptr_t)address, size, present) < 0)
		return false;
	for (size_t i = 0; i < size / page; i++)
		if (!(present[i] & 1))
			return false;
	return true;
}

static CUresult pin_piece(struct host_region *region, uint64_t at, uint64_t end)
{
	CUresult result;

	if (bit_get(region->pinned, host_page_of(region, at)))
		return CUDA_SUCCESS;
	if (!host_is_present(at, end - at) || !account_keep(region, KEPT_REGISTRATION))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuMemHostRegister_v2((void *)(uintptr_t)at, end - at,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result == CUDA_SUCCESS)
		set_pinned(region, at, end, true);
	else
		account_unkeep(region, KEPT_REGISTRATION);
	return result;
}

CUresult do_host_pin(struct session *session, uint32_t device, uint64_t address)
{
	struct host_region *region = host_region_find(session, address);
	uint64_t at, size, end;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!region || !arena_chunk(&region->arena, address, &at, &size))
		return CUDA_ERROR_INVALID_VALUE;
	for (end = at + size; at < end && result == CUDA_SUCCESS; at = piece_end(at, end))
		result = pin_piece(region, at, piece_end(at, end));
	return result;
}

/*
 * The memory stays pinned for the session's next allocation, until the session has long been
 * idle.
 */
CUresult do_host_free(struct session *session, uint64_t address)
{
	struct host_region *region = host_region_find(session, address);
	uint64_t start, span;
	bool is_used;
	CUresult result;

	if (!region || !arena_chunk(&region->arena, address, &start, &span))
		return CUDA_ERROR_INVALID_VALUE;
	is_used = is_pinned(region, start, span);
	session->has_unused_host = true;
	session->n_freed++;
	result = arena_free(&region->arena, address);
	/* Memory was too short for all of it, so other allocations need what there is. */
	if (!is_used && streams_poll(session))
		host_trim(session);
	return result;
}

void host_trim(struct session *session)
{
	session->has_unused_host = false;
	if (session->host_regions)
		session_device_enter_any(session);
	for (struct host_region *region = session->host_regions; region; region = region->next)
		arena_trim(&region->arena);
}

/* Gives everything back. */
static void host_fini(struct session *session, bool device_lost)
{
	if (session->host_regions && !device_lost)
		session_device_enter_any(session);
	while (session->host_regions) {
		struct host_region *region = LIST_POP(session->host_regions);

		host_region_free(region, device_lost);
	}
}

static bool host_is_settled(const struct session *session)
{
	return !session->has_unused_host;
}

/* Pinning delays all clients, so memory stays pinned unless all is wanted. */
static void host_trim_part(struct session *session, bool all)
{
	if (all)
		host_trim(session);
}

/* The number of the GPU whose quota counts the region, from 1 on; 0: none does. */
static uint64_t payer_of(const struct session *session, const struct host_region *region)
{
	for (uint64_t i = 0; i < DEVICES_MAX && region->arena.memory; i++)
		if (session->devices[i] && session->devices[i]->memory == region->arena.memory)
			return i + 1;
	return 0;
}

static size_t pinned_bytes(const struct host_region *region)
{
	return BITS_WORDS(region->arena.n_pages) * sizeof(uint64_t);
}

static int host_pack(struct session *session, struct pack *pack)
{
	const struct host_region *region;
	uint64_t n = 0;
	int r = 0;

	for (region = session->host_regions; region; region = region->next)
		n++;
	pack_put_number(pack, n);
	for (region = session->host_regions; region && r == 0; region = region->next) {
		pack_put_number(pack, region->arena.base);
		pack_put_number(pack, region->arena.size);
		pack_put_number(pack, payer_of(session, region));
		pack_put_fd(pack, fcntl(region->fd, F_DUPFD_CLOEXEC, 0));
		pack_put(pack, region->pinned, pinned_bytes(region));
		r = arena_pack(&region->arena, pack);
	}
	return r;
}

/* Pins the pieces of the chunk that were pinned. */
static int pin_again(
	struct host_region *region, uint64_t address, uint64_t end, const uint64_t *pinned)
{
	for (uint64_t at = address; at < end; at = piece_end(at, end))
		if (bit_get(pinned, host_page_of(region, at)) &&
			pin_piece(region, at, piece_end(at, end)) != CUDA_SUCCESS)
			return -EIO;
	return 0;
}

static int pin_all_again(
	struct session *session, struct host_region *region, const uint64_t *pinned)
{
	uint64_t start, size, at = region->arena.base, end = at + region->arena.size;
	int r = 0;

	session_device_enter_any(session);
	for (; at < end && r == 0; at += HOST_PAGE)
		if (arena_chunk(&region->arena, at, &start, &size) && start == at)
			r = pin_again(region, at, at + size, pinned);
	return r;
}

struct packed_region {
	uint64_t base, size, payer;
	int fd;
};

/* The file has to have the size that it is mapped with. */
static int region_read(
	const struct session *session, struct pack *pack, struct packed_region *ret_packed)
{
	const uint64_t base = pack_get_number(pack, HOST_SPACE_END);
	const uint64_t size = pack_get_number(pack, HOST_SPACE_END - HOST_SPACE);
	const uint64_t payer = pack_get_number(pack, DEVICES_MAX);

	*ret_packed = (struct packed_region){base, size, payer, pack_get_fd(pack)};
	return ret_packed->fd < 0 || base < HOST_SPACE || base % VA_WINDOW || size == 0 ||
			       size % VA_WINDOW || size > HOST_SPACE_END - base ||
			       (payer && session->arena_bases[payer - 1] == 0) ||
			       shm_check(ret_packed->fd, size) < 0
		       ? -EBADMSG
		       : 0;
}

/* The windows of a region are of no other one: `taken' has a bit for each. */
static int region_check(struct session *session, struct pack *pack, uint64_t *taken)
{
	struct packed_region packed;
	_cleanup_account_ uint8_t *pinned = NULL;
	size_t bytes;
	int r = region_read(session, pack, &packed);

	if (r < 0)
		return r;
	for (uint64_t at = 0; at < packed.size; at += VA_WINDOW) {
		uint32_t window = (uint32_t)((packed.base + at - HOST_SPACE) / VA_WINDOW);

		if (bit_get(taken, window))
			return -EBADMSG;
		bit_set(taken, window, true);
	}
	bytes = BITS_WORDS(packed.size / HOST_PAGE) * sizeof(uint64_t);
	pinned = account_alloc(session->account, bytes, 0);
	if (!pinned)
		return -ENOMEM;
	return pack_get(pack, pinned, bytes)
		       ? arena_check(session->account, packed.base, packed.size, true, pack)
		       : -EBADMSG;
}

static int host_check(struct session *session, struct pack *pack)
{
	uint64_t taken[BITS_WORDS((HOST_SPACE_END - HOST_SPACE) / VA_WINDOW)] = {0};
	uint64_t n = pack_get_number(pack, (HOST_SPACE_END - HOST_SPACE) / VA_WINDOW);
	int r = pack->is_bad ? -EBADMSG : 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = region_check(session, pack, taken);
	return r;
}

static int region_unpack(struct session *session, struct pack *pack)
{
	struct packed_region packed;
	int r = region_read(session, pack, &packed);
	_cleanup_close_ int fd = packed.fd;
	struct session_device *sdev =
		r == 0 && packed.payer ? session->devices[packed.payer - 1] : NULL;
	_cleanup_account_ uint64_t *pinned = NULL;
	struct host_region *region;

	if (r < 0 || (packed.payer && !sdev))
		return -EBADMSG;
	if (region_new(session, packed.size, packed.base, sdev ? sdev->memory : NULL, TAKE_FD(fd),
		    &region) != CUDA_SUCCESS)
		return -ENOMEM;
	LIST_PUSH(session->host_regions, region);
	pinned = account_alloc(session->account, pinned_bytes(region), 0);
	if (!pinned || region->arena.base != packed.base)
		return pinned ? -EADDRINUSE : -ENOMEM;
	r = pack_get(pack, pinned, pinned_bytes(region)) ? arena_unpack(&region->arena, pack)
							 : -EBADMSG;
	return r == 0 ? pin_all_again(session, region, pinned) : r;
}

static int host_unpack(struct session *session, struct pack *pack)
{
	uint64_t n = pack_get_number(pack, (HOST_SPACE_END - HOST_SPACE) / VA_WINDOW);
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = region_unpack(session, pack);
	return r;
}

const struct session_part host_part = {
	.pack = host_pack,
	.check = host_check,
	.unpack = host_unpack,
	.is_settled = host_is_settled,
	.trim = host_trim_part,
	.end = host_fini,
};
