/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVED_SESSION_H
#define MOVED_SESSION_H

/*
 * A session with one of each kind of memory that moves to another server, over the counting driver,
 * and its pack.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "async_close.h"
#include "server/util/pack.h"
#include "server/session/session_move.h"
#include "server/share/chunk.h"
#include "server/share/eviction.h"
#include "server/share/host_store.h"
#include "server/share/session_devices.h"
#include "server/stream/stream.h"
#include "server/memory/alias.h"
#include "server/memory/away.h"
#include "server/memory/host.h"
#include "server/memory/mapping.h"
#include "server/array/array.h"
#include "server/replay.h"
#include "tests/unit/server/open_session.h"

#define MIB (1ull << 20)
#define STREAM (DEVICES_MAX + 3)
#define EVENT 5
/* An array of 3 MiB, in two boxes, and one with three levels. */
#define ARRAY 6
#define ARRAY_BYTES (3 * MIB)
#define MIPMAP 8

/* What the session has that is packed. */
static uint64_t heap, small, large, region, pinned, plain, alias, addresses;

/* Allocations that the client maps. The second one has no ID any more. */
enum {
	MAPPED = 1,
	RELEASED,
	UNMAPPED,
	IMPORTED
};
#define UNIT (2 * MIB)
#define READ_ONLY 1u
#define READ_WRITE 3u

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Another thread closes the descriptors of images, and of memory that is imported. */
/* Those of earlier sessions are closed by other threads. */
static unsigned count_open_fds(void)
{
	for (unsigned i = 0; i < 2000 && async_close_pending() > 0; i++)
		usleep(1000);
	return count_fds();
}

static bool fds_are(unsigned n)
{
	for (unsigned i = 0; i < 2000 && count_fds() != n; i++)
		usleep(1000);
	return count_fds() == n;
}

static uint64_t alloc_host(uint64_t size, bool is_pinned)
{
	uint64_t address = 0, start, span;
	uint32_t was_pinned;

	assert_int_equal(
		send_host_alloc(size, 0, &address, &start, &span, &was_pinned), CUDA_SUCCESS);
	if (!is_pinned)
		return address;
	memset((void *)(uintptr_t)start, 7, span);
	assert_int_equal(send_host_pin(0, address), CUDA_SUCCESS);
	return address;
}

/* A file whose second MiB, a few bytes later, has an alias of 2 MiB. */
static void make_alias(void)
{
	static uint8_t bytes[4 * MIB];
	int fd = memfd_create("alias", MFD_CLOEXEC);
	struct stat is;

	memset(bytes, 9, sizeof(bytes));
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(fstat(fd, &is), 0);
	harness_send_memory(MIB + 5, 2 * MIB, fd);
	assert_int_equal(
		send_host_alias(0, is.st_dev, is.st_ino, MIB + 5, 2 * MIB, &alias), CUDA_SUCCESS);
	close(fd);
}

static void make_allocation(uint32_t id, uint64_t address, uint64_t size, bool is_exportable)
{
	uint32_t granted;

	assert_int_equal(
		send_allocation_create(id, 0, size, is_exportable, 0, &granted), CUDA_SUCCESS);
	if (address == 0)
		return;
	assert_int_equal(send_allocation_map(id, address, size), CUDA_SUCCESS);
	assert_int_equal(send_allocation_access(address, size, 0, READ_WRITE), CUDA_SUCCESS);
}

/* A released allocation is mapped twice, and may only be read at the second address. */
static void make_virtual(void)
{
	const unsigned n_fds = count_open_fds();
	int fd = memfd_create("imported", MFD_CLOEXEC);
	uint32_t device, properties;
	uint64_t size;

	assert_int_equal(send_address_region(1, &addresses, &size), CUDA_SUCCESS);
	make_allocation(MAPPED, addresses + UNIT, UNIT, true);
	make_allocation(RELEASED, addresses + 2 * UNIT, 2 * UNIT, false);
	assert_int_equal(
		send_allocation_map(RELEASED, addresses + 8 * UNIT, 2 * UNIT), CUDA_SUCCESS);
	assert_int_equal(
		send_allocation_access(addresses + 8 * UNIT, 2 * UNIT, 0, READ_ONLY), CUDA_SUCCESS);
	send_allocation_release(RELEASED);
	make_allocation(UNMAPPED, 0, UNIT, false);
	assert_true(fd >= 0 && ftruncate(fd, (off_t)UNIT) == 0);
	harness_send_memory(IMPORTED, 0, fd);
	close(fd);
	assert_int_equal(send_allocation_import(IMPORTED, &device, &properties), CUDA_SUCCESS);
	assert_true(fds_are(n_fds));
	assert_int_equal(send_allocation_map(IMPORTED, addresses + 12 * UNIT, UNIT), CUDA_SUCCESS);
}

/* In the heap: a chunk of small pieces, and a chunk of two parts. A region of host memory. */
static void make_memory(void)
{
	uint64_t size, freed;

	heap = harness.session->devices[0]->arena.base;
	assert_int_equal(send_memory_alloc(0, 1000, &freed), CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 1000, &small), CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 131 * MIB, &large), CUDA_SUCCESS);
	send_memory_free(freed);
	assert_int_equal(send_host_region(1, 0, 0, &region, &size), CUDA_SUCCESS);
	close(harness_read_memory(region, size));
	pinned = alloc_host(3 * MIB, true);
	plain = alloc_host(3 * MIB, false);
	make_alias();
	make_virtual();
}

static bool has_arrays; /* their contents are the last file of the pack */

/* The end of a session frees the pages of its host memory; a server that moves it leaves them. */
static void fill_pinned(const struct pack *pack)
{
	static uint8_t bytes[4 * MIB];

	memset(bytes, 7, sizeof(bytes));
	assert_int_equal(pwrite(pack->fds[pack->n_fds - 1 - has_arrays], bytes, sizeof(bytes),
				 (off_t)(pinned - region)),
		sizeof(bytes));
}

/* The first part that is away has these bytes. */
#define EVICTED_BYTE 5
#define EVICTED (UNIT + 132 * MIB + 3 * UNIT)

static bool is_evicted;

static uint8_t *evicted_bytes(void)
{
	const struct chunk *chunk = chunk_at(&harness.session->devices[0]->arena, 0);

	assert_true(chunk && chunk->away == UNIT);
	return host_store_memory(&chunk->parts[0].stored);
}

static void evict_all(void)
{
	away_leave(harness.session);
	assert_int_equal(eviction_bytes(harness.session), EVICTED);
	memset(evicted_bytes(), EVICTED_BYTE, UNIT);
}

static void make_arrays(void)
{
	assert_int_equal(send_array_create(ARRAY, 0, 1024, 768, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0),
		CUDA_SUCCESS);
	assert_int_equal(
		send_array_create(MIPMAP, 0, 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0, 3), CUDA_SUCCESS);
}

/* The state of a session that has ended. */
static void pack_session(struct pack *pack)
{
	assert_int_equal(open_session(NULL), 0);
	make_memory();
	send_stream_create(STREAM, 0, 0, 0);
	send_event_create(EVENT, CU_EVENT_DEFAULT);
	send_event_record(EVENT, STREAM, 1);
	if (has_arrays)
		make_arrays();
	harness_serve();
	assert_true(streams_poll(harness.session));
	if (is_evicted)
		evict_all();
	*pack = (struct pack){0};
	assert_null(session_stays(harness.session));
	assert_int_equal(replay_pack(harness.session, pack), 0);
	assert_int_equal(session_pack(harness.session, pack), 0);
	close_session(NULL);
	fill_pinned(pack);
}

/* Of `size' bytes and `n_fds' descriptors; more than there are: zeros, and one file again. */
static struct pack copy_of(const struct pack *pack, size_t size, unsigned n_fds)
{
	static const uint8_t zeros[8];
	struct pack copy = {0};

	pack_put(&copy, pack->bytes, MIN(size, pack->size));
	for (; copy.size < size;)
		pack_put(&copy, zeros, MIN(size - copy.size, sizeof(zeros)));
	for (unsigned i = 0; i < n_fds; i++)
		pack_put_fd(&copy, fcntl(pack->fds[i % pack->n_fds], F_DUPFD_CLOEXEC, 0));
	assert_false(copy.is_bad);
	fill_pinned(pack);
	return copy;
}

/* Whether the last pack was found wrong before a GPU was needed. */
static bool is_wrong_before;

/* Gives the pack to a new session, which ends as any other. Frees the pack. */
static int unpack(struct pack *pack)
{
	int r;

	harness_open(false);
	r = replay_unpack(harness.session, pack);
	is_wrong_before = r < 0 || session_check(harness.session, pack) < 0;
	if (r == 0)
		r = session_unpack(harness.session, pack);
	pack_fini(pack);
	close_session(NULL);
	return r;
}

#endif
