/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Regions of pinned memory, and their mapped chunks. Any thread of the application.
 *
 * Invariant: a chunk is mapped if and only if its count is not 0 or it is idle.
 */

#include "host_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "descriptor.h"
#include "layout.h"
#include "lock.h"
#include "shm.h"

/*
 * Small chunks stay mapped for the next allocation: to map and unmap a page takes a microsecond.
 * Few enough for a core or a program that locks its memory.
 */
#define IDLE_BYTES_MAX (16ull << 20)
#define IDLE_MAX (IDLE_BYTES_MAX / HOST_PAGE)

/* A chunk, at its first page. */
struct chunk_use {
	uint32_t n_pages; /* HOST_PAGE */
	uint32_t n_used;  /* allocations */
};

struct host_region {
	struct host_region *next;
	uint64_t base, size;
	struct descriptor file;
	struct chunk_use chunks[];
};

static struct lock map_lock = LOCK_INIT(HOST_MAP);

/* All under the lock. A region stays as long as the process. */
static struct host_region *regions;
static struct idle_chunk {
	uint64_t start, span;
} idle[IDLE_MAX]; /* the oldest first */
static unsigned n_idle;

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* Not MAP_FIXED: a sanitizer then puts the page elsewhere instead of ending the program. */
static int try_page(uint64_t address)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(pointer(address), page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return -errno;
	munmap(map, page);
	return map == pointer(address) ? 0 : -EEXIST;
}

/* Takes `fd'. */
static int region_open(struct host_region *region, int fd)
{
	int r = shm_check(fd, region->size);

	if (r == 0)
		r = try_page(region->base);
	if (r < 0) {
		close(fd);
		return r;
	}
	fd = descriptor_raise(fd);
	if (fd < 0)
		return fd;
	descriptor_note(&region->file, fd);
	return 0;
}

int host_map_add(uint64_t base, uint64_t size, int fd)
{
	_cleanup_close_ int file = fd;
	struct host_region *region =
		calloc(1, sizeof(*region) + size / HOST_PAGE * sizeof(struct chunk_use));
	int r;

	if (!region)
		return -ENOMEM;
	region->base = base;
	region->size = size;
	r = region_open(region, TAKE_FD(file));
	if (r < 0) {
		free(region);
		return r;
	}
	lock_hold(&map_lock);
	LIST_PUSH(regions, region);
	return 0;
}

/* Under the lock. */
static struct host_region *region_at(uint64_t address, uint64_t size)
{
	struct host_region *region = regions;

	while (region &&
		(address < region->base || !range_ok(address - region->base, size, region->size)))
		region = region->next;
	return region;
}

static void idle_remove(unsigned i)
{
	memmove(&idle[i], &idle[i + 1], (--n_idle - i) * sizeof(*idle));
}

static void idle_unmap(unsigned i)
{
	munmap(pointer(idle[i].start), idle[i].span);
	idle_remove(i);
}

static uint64_t idle_bytes(void)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n_idle; i++)
		bytes += idle[i].span;
	return bytes;
}

static void idle_add(uint64_t start, uint64_t span)
{
	if (span > IDLE_BYTES_MAX) {
		munmap(pointer(start), span);
		return;
	}
	while (idle_bytes() + span > IDLE_BYTES_MAX)
		idle_unmap(0);
	idle[n_idle++] = (struct idle_chunk){start, span};
}

/* Takes the chunk if it is idle. Otherwise the server has divided the addresses anew. */
static bool idle_take(uint64_t start, uint64_t span)
{
	for (unsigned i = n_idle; i-- > 0;) {
		if (idle[i].start == start && idle[i].span == span) {
			idle_remove(i);
			return true;
		}
		if (idle[i].start < start + span && start < idle[i].start + idle[i].span)
			idle_unmap(i);
	}
	return false;
}

/* 1: it was mapped now; 0: it was idle. */
static int chunk_map(const struct host_region *region, uint64_t start, uint64_t span)
{
	int r;

	if (idle_take(start, span))
		return 0;
	if (!descriptor_is_same(&region->file))
		return -EBADF;
	r = shm_map_part(region->file.fd, start - region->base, start, span);
	return r < 0 ? r : 1;
}

int host_map_use(uint64_t start, uint64_t span)
{
	struct host_region *region;
	struct chunk_use *chunk;
	int r = 0;

	lock_hold(&map_lock);
	region = span > 0 ? region_at(start, span) : NULL;
	if (region && (start | span) % HOST_PAGE == 0) {
		chunk = &region->chunks[(start - region->base) / HOST_PAGE];
		if (chunk->n_used == 0) {
			r = chunk_map(region, start, span);
			chunk->n_pages = (uint32_t)(span / HOST_PAGE);
		}
		chunk->n_used += r >= 0;
	} else {
		r = -ENXIO;
	}
	return r;
}

void host_map_unuse(uint64_t address)
{
	struct host_region *region;
	struct chunk_use *chunk;

	lock_hold(&map_lock);
	region = region_at(address, 1);
	/* An allocation begins in the first page of its chunk. */
	chunk = region ? &region->chunks[(address - region->base) / HOST_PAGE] : NULL;
	if (chunk && chunk->n_used > 0 && --chunk->n_used == 0)
		idle_add(
			address - (address - region->base) % HOST_PAGE, chunk->n_pages * HOST_PAGE);
}
