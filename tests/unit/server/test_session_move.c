/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The state of a session for another server (server/session/session_move.h): a session has the
 * same after it, and bytes that are not right are refused, and leave nothing behind. The driver
 * only counts.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "moved_session.h"
#include "server/util/log.h"
#include "server/driver/owner.h"
#include "server/stream/event.h"
#include "server/memory/virtual.h"
#include "tests/unit/seed.h"

#define RANDOM_ROWS 400

static unsigned n_cannot_go_on; /* lines that say so */

void log_line(const char *format, ...)
{
	n_cannot_go_on += strstr(format, "cannot go on") != NULL;
}

static void assert_chunk(const struct arena *arena, uint64_t address, uint64_t start, uint64_t size)
{
	uint64_t found_start = 0, found_size = 0;

	assert_true(arena_chunk(arena, address, &found_start, &found_size));
	assert_int_equal(found_start, start);
	assert_int_equal(found_size, size);
}

static void assert_virtual(const struct session *session)
{
	const struct allocation *allocation = handle_get(&session->allocations, UNMAPPED);
	uint64_t released = addresses + 2 * UNIT;

	assert_int_equal(session->allocations.n_used, 3);
	assert_true(allocation && allocation->size == UNIT && !allocation->is_exportable);
	allocation = handle_get(&session->allocations, MAPPED);
	assert_true(allocation && allocation->is_exportable && allocation->n_mappings == 1);
	allocation = handle_get(&session->allocations, IMPORTED);
	assert_true(allocation && !allocation->memory && allocation->n_mappings == 1);
	assert_true(virtual_has(session, addresses + UNIT, 3 * UNIT));
	assert_true(virtual_has(session, addresses + 8 * UNIT, 2 * UNIT));
	assert_false(virtual_has(session, addresses + UNIT, 3 * UNIT + 1));
	assert_false(virtual_has(session, addresses + 12 * UNIT, 1)); /* no access */
	assert_int_equal(mapping_at(session->regions, released), 1);
	allocation = session->regions->mappings[1].allocation;
	assert_true(allocation == session->regions->mappings[2].allocation);
	assert_true(allocation->is_released && allocation->n_mappings == 2);
	assert_int_equal(session->regions->mappings[1].writers, 1);
	assert_int_equal(session->regions->mappings[2].writers, 0);
}

/* Charged: a chunk of 2 MiB, one of 132 MiB, and three allocations of 8 MiB together. */
static void assert_quota(const struct session *session)
{
	assert_int_equal(
		quota_used(&session->devices[0]->memory->quota), UNIT + 132 * MIB + 4 * UNIT);
}

static void end_virtual(void)
{
	send_allocation_unmap(addresses + UNIT, 3 * UNIT);
	send_allocation_unmap(addresses + 8 * UNIT, 2 * UNIT);
	send_allocation_unmap(addresses + 12 * UNIT, UNIT);
	send_allocation_release(MAPPED);
	send_allocation_release(UNMAPPED);
	send_allocation_release(IMPORTED);
	send_address_region_end(addresses);
}

/* Contents come when the arrays are made, level by level, and only then. */
static void test_arrays(void **state)
{
	struct pack pack;

	(void)state;
	has_arrays = true;
	pack_session(&pack);
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
	assert_int_equal(harness.session->array_contents->n_left, 2);
	/* It moves on before it has made them. */
	assert_int_equal(replay_pack(harness.session, &pack), 0);
	assert_int_equal(session_pack(harness.session, &pack), 0);
	close_session(NULL);
	fill_pinned(&pack);
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
	assert_int_equal(harness.session->array_contents->n_left, 2);
	assert_int_equal(fake_counts_now().arrays, 0);
	fake_calls.copies = 0;
	assert_true(replay_run(harness.session));
	assert_int_equal(fake_calls.copies, 2 + 3);
	assert_int_equal(fake_counts_now().arrays, 2);
	assert_int_equal(harness.session->array_contents->n, 0);
	close_session(NULL);
}

/* What is away comes as it left, and returns. */
static void test_evicted(void **state)
{
	struct pack pack;

	(void)state;
	has_arrays = false;
	is_evicted = true;
	pack_session(&pack);
	is_evicted = false;
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
	assert_int_equal(eviction_bytes(harness.session), EVICTED);
	assert_int_equal(host_store_used(), EVICTED);
	assert_true(atomic_load(&harness.session->memory_wanted) & WANTED_RETURN);
	assert_int_equal(evicted_bytes()[UNIT - 1], EVICTED_BYTE);
	assert_virtual(harness.session);
	assert_quota(harness.session);
	assert_int_equal(fake_counts_now().allocations, 2); /* UNMAPPED and IMPORTED */
	assert_true(away_return(harness.session));
	assert_int_equal(eviction_bytes(harness.session), 0);
	assert_int_equal(fake_counts_now().allocations, 2 + 3 + 2);
	assert_true(arena_has(&harness.session->devices[0]->arena, large, 131 * MIB));
	close_session(NULL);
}

static void test_same(void **state)
{
	struct pack pack;
	const struct arena *arena;
	uint64_t other = 0;

	(void)state;
	has_arrays = false;
	pack_session(&pack);
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
	assert_int_equal(record_count(&harness.session->record, RECORD_KINDS), 0);
	/* The time of an event is known, although none can be recorded now. */
	fake_switches.is_busy = true;
	assert_true(replay_run(harness.session));
	fake_switches.is_busy = false;
	assert_true(session_event(harness.session, EVENT)->recorded_ns > 0);
	assert_int_equal(record_count(&harness.session->record, RECORD_STREAM), 1);
	assert_int_equal(record_count(&harness.session->record, RECORD_EVENT), 1);
	arena = &harness.session->devices[0]->arena;
	assert_int_equal(arena->base, heap);
	assert_true(arena_has(arena, small, 1000));
	assert_chunk(arena, large, large, 132 * MIB);
	assert_int_equal(owner_of(small).session, harness.session->id);
	assert_true(host_has(harness.session, pinned, 3 * MIB));
	assert_false(host_has(harness.session, plain, 1));
	assert_int_equal(*(uint8_t *)(uintptr_t)pinned, 7);
	assert_true(alias_has(harness.session, alias, 2 * MIB));
	assert_false(alias_has(harness.session, alias, 2 * MIB + 4096));
	assert_int_equal(*(uint8_t *)(uintptr_t)alias, 9);
	assert_virtual(harness.session);
	assert_quota(harness.session);
	/* Free space is free space, and what is used is not given again. */
	harness.session->receiver.head = 0;
	assert_int_equal(send_memory_alloc(0, 1000, &other), CUDA_SUCCESS);
	assert_int_equal(other, heap);
	send_memory_free(small);
	send_memory_free(large);
	send_host_free(pinned);
	send_host_free(plain);
	send_host_alias_end(alias);
	end_virtual();
	harness_serve();
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
	assert_null(record_obstacle(&harness.session->record));
	assert_null(harness.session->aliases->files);
	assert_int_equal(fake_counts_now().reservations, 1);
	close_session(NULL);
}

/* A message of the record fails, since its client has left, or for another reason. */
static void check_failed(bool has_left)
{
	struct pack pack;

	pack_session(&pack);
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
	atomic_store(&harness.session->is_ending, has_left);
	fake_switches.fail_next = CUDA_ERROR_MPS_RPC_FAILURE;
	n_cannot_go_on = 0;
	assert_false(replay_run(harness.session));
	assert_int_equal(n_cannot_go_on, !has_left);
	close_session(NULL);
}

static void test_failed(void **state)
{
	(void)state;
	has_arrays = true;
	check_failed(false);
	check_failed(true);
}

/* Where a number is: so many numbers behind one that is known. */
enum place {
	FROM_START,
	FROM_HEAP,
	FROM_REGION,
	FROM_RUN,
	FROM_ADDRESSES,
	FROM_END,
	FOUND_LATE = 8, /* a bit: by the driver */
};

#define PAGE (2 * DEVICES_MAX - 1) /* behind the heap's base: the size of its pages */
#define CHUNKS (PAGE + 1)          /* how many chunks it has */
#define CHUNK (CHUNKS + 1)         /* the first one */
#define PART (CHUNK + 4)           /* whether its one part is away */
#define SLOTS (PART + 1)           /* its used slots: number, and two sets of bits */
#define SLOT_WORDS (2 * MIB / ARENA_ALIGN / 64)
#define LARGE (SLOTS + 1 + 2 * SLOT_WORDS)

#define ALLOCATION(i) (5 * ((i)-4) - 1) /* before the addresses: the released one is the last */
#define MAPPING(i) (3 + 5 * (i))

static const struct row {
	const char *name;
	unsigned from; /* enum place */
	int at;
	uint64_t value;
} rows[] = {
	{"more images than descriptors", FROM_START, 0, 50},
	{"an image that is memory", FROM_START, 0, 1},
	{"more bytes of a message than a message has", FROM_START, 1, (uint64_t)UINT32_MAX << 32},
	{"some bytes of a message that are others", FROM_START, 1, (uint64_t)8 << 32},

	{"no heap", FROM_HEAP, 0, 0},
	{"a heap below all windows", FROM_HEAP, 0, VA_WINDOW},
	{"a heap behind all windows", FROM_HEAP, 0, DEVICE_SPACE_END},
	{"a heap in the windows of host memory", FROM_HEAP, 0, HOST_SPACE},
	{"a heap that begins in a window", FROM_HEAP, 0, DEVICE_SPACE + VA_WINDOW / 2},
	{"a heap of a GPU that is not there", FROM_HEAP, 2, DEVICE_SPACE},
	{"... of the last one", FROM_HEAP, 2 * (DEVICES_MAX - 1), DEVICE_SPACE},

	{"pages without bytes", FROM_HEAP, PAGE, 0},
	{"pages of other bytes", FROM_HEAP, PAGE, 4 * MIB},
	{"pages of few bytes", FROM_HEAP, PAGE, 1},
	{"a page that is larger than the heap", FROM_HEAP, PAGE, UINT64_MAX},
	{"no chunks", FROM_HEAP, CHUNKS, 0},
	{"fewer chunks", FROM_HEAP, CHUNKS, 1},
	{"more chunks", FROM_HEAP, CHUNKS, 3},
	{"more chunks than pages", FROM_HEAP, CHUNKS, UINT64_MAX},
	{"a chunk behind the heap", FROM_HEAP, CHUNK, FAKE_MEMORY / (2 * MIB)},
	{"a chunk far behind the heap", FROM_HEAP, CHUNK, UINT64_MAX},
	{"a chunk at the pages of another", FROM_HEAP, LARGE, 0},
	{"a chunk that ends behind the heap", FROM_HEAP, LARGE, FAKE_MEMORY / (2 * MIB) - 1},
	{"a chunk without pages", FROM_HEAP, LARGE + 1, 0},
	{"a chunk with all pages", FROM_HEAP, LARGE + 1, FAKE_MEMORY / (2 * MIB)},
	{"a chunk whose size overflows", FROM_HEAP, LARGE + 1, UINT64_MAX / (2 * MIB) + 1},
	{"a chunk that is larger than its memory", FROM_HEAP | FOUND_LATE, LARGE + 1, 67},
	{"a chunk that is smaller than its memory", FROM_HEAP | FOUND_LATE, LARGE + 1, 65},
	{"a chunk with fewer parts than descriptors", FROM_HEAP, LARGE + 1, 3},
	{"a chunk of two pages with slots", FROM_HEAP, CHUNK + 1, 2},
	{"a chunk without its slots", FROM_HEAP, CHUNK + 2, 0},
	{"a chunk with slots that are not there", FROM_HEAP, LARGE + 2, 1},
	{"a chunk that is shared twice", FROM_HEAP, CHUNK + 2, 2},
	{"a chunk that is exported twice", FROM_HEAP, CHUNK + 3, 2},

	{"a part that is away twice", FROM_HEAP, PART, 2},

	{"no slot in use", FROM_HEAP, SLOTS, 0},
	{"more slots than bits", FROM_HEAP, SLOTS, 3},
	{"more slots than the chunk has", FROM_HEAP, SLOTS, UINT64_MAX},
	{"a piece that does not end", FROM_HEAP, SLOTS + 1, 0xff},
	{"no piece", FROM_HEAP, SLOTS + 1, 0},
	{"a piece that ends in free space", FROM_HEAP, SLOTS + 1 + SLOT_WORDS, 0xff},

	{"no region", FROM_REGION, -1, 0},
	{"more regions", FROM_REGION, -1, 2},
	{"more regions than windows", FROM_REGION, -1, UINT64_MAX},
	{"a region at 0", FROM_REGION, 0, 0},
	{"a region in the windows of a GPU", FROM_REGION, 0, DEVICE_SPACE},
	{"a region that begins in a window", FROM_REGION, 0, HOST_SPACE + HOST_PAGE},
	{"a region behind all windows", FROM_REGION, 0, HOST_SPACE_END},
	{"a region without bytes", FROM_REGION, 1, 0},
	{"a region of half a window", FROM_REGION, 1, VA_WINDOW / 2},
	{"a region that is larger than its file", FROM_REGION, 1, 2 * VA_WINDOW},
	{"a region that ends behind all windows", FROM_REGION, 1, HOST_SPACE_END - HOST_SPACE},
	{"a region whose end overflows", FROM_REGION, 1, UINT64_MAX - VA_WINDOW + 1},
	{"a region for the limit of a GPU that is not open", FROM_REGION, 2, 2},
	{"a region for the limit of no GPU", FROM_REGION, 2, DEVICES_MAX + 1},
	{"no file", FROM_RUN, -2, 0},
	{"more files than descriptors", FROM_RUN, -2, 50},
	{"more files than numbers", FROM_RUN, -2, UINT64_MAX},
	{"no run", FROM_RUN, -1, 0},
	{"more runs", FROM_RUN, -1, 2},
	{"more runs than windows", FROM_RUN, -1, UINT64_MAX},
	{"a run at 0", FROM_RUN, 0, 0},
	{"a run in the windows of a GPU", FROM_RUN, 0, DEVICE_SPACE},
	{"a run that begins in a window", FROM_RUN, 0, HOST_SPACE + HOST_PAGE},
	{"a run behind all windows", FROM_RUN, 0, HOST_SPACE_END},
	{"a run without bytes", FROM_RUN, 1, 0},
	{"a run of half a window", FROM_RUN, 1, VA_WINDOW / 2},
	{"a run that ends behind all windows", FROM_RUN, 1, HOST_SPACE_END - HOST_SPACE},
	{"a run without aliases", FROM_RUN, 2, 0},
	{"a run with more aliases", FROM_RUN, 2, 2},
	{"an alias of no file", FROM_RUN, 3, 1},
	{"an alias within a page of its file", FROM_RUN, 4, 512},
	{"an alias at a negative offset", FROM_RUN, 4, UINT64_MAX - 4095},
	{"an alias whose end overflows", FROM_RUN, 4, INT64_MAX - 4095},
	{"an alias behind its file", FROM_RUN | FOUND_LATE, 4, 64 * MIB},
	{"an alias that begins in a slot", FROM_RUN, 5, 4096},
	{"an alias that ends behind its run", FROM_RUN, 5, VA_WINDOW - UNIT},
	{"an alias behind its run", FROM_RUN, 5, VA_WINDOW},
	{"an alias without pages", FROM_RUN, 6, 0},
	{"an alias of half a page", FROM_RUN, 6, 2048},
	{"an alias that is larger than its file", FROM_RUN | FOUND_LATE, 6, 8 * MIB},
	{"an alias that is larger than its run", FROM_RUN, 6, VA_WINDOW + 4096},
	{"an alias that begins behind its page", FROM_RUN, 7, 4096},

	{"more allocations", FROM_ADDRESSES, ALLOCATION(0) - 1, 5},
	{"fewer allocations", FROM_ADDRESSES, ALLOCATION(0) - 1, 3},
	{"more allocations than descriptors", FROM_ADDRESSES, ALLOCATION(0) - 1, UINT64_MAX},
	{"an ID that is too large", FROM_ADDRESSES, ALLOCATION(0), (uint64_t)OBJECT_IDS},
	{"two allocations of an ID", FROM_ADDRESSES, ALLOCATION(1), MAPPED},
	{"an allocation without bytes", FROM_ADDRESSES, ALLOCATION(1) + 1, 0},
	{"an allocation of all addresses", FROM_ADDRESSES, ALLOCATION(1) + 1, UINT64_MAX},
	{"a larger allocation than its mapping", FROM_ADDRESSES, ALLOCATION(0) + 1, 2 * UNIT},
	{"an allocation of a GPU that is not there", FROM_ADDRESSES, ALLOCATION(0) + 2, 2},
	{"an allocation of no GPU", FROM_ADDRESSES, ALLOCATION(0) + 2, DEVICES_MAX},
	{"an allocation that nothing keeps", FROM_ADDRESSES, ALLOCATION(1) + 3, 8 | 1},
	{"an allocation with bits that are not there", FROM_ADDRESSES, ALLOCATION(1) + 3, 8 | 32},
	{"memory that is away and cannot come back", FROM_ADDRESSES, ALLOCATION(1) + 3, 8 | 16},
	{"an import that is away", FROM_ADDRESSES, ALLOCATION(2) + 3, 2 | 16},
	{"an import with a size", FROM_ADDRESSES, ALLOCATION(2) + 1, UNIT},
	{"an import without an export", FROM_ADDRESSES, ALLOCATION(2) + 3, 0},
	{"an import with properties", FROM_ADDRESSES, ALLOCATION(2) + 4, 1},
	{"properties that are not there", FROM_ADDRESSES, ALLOCATION(0) + 4, 4},
	{"more regions of addresses", FROM_ADDRESSES, -1, 2},
	{"no region of addresses", FROM_ADDRESSES, -1, 0},
	{"addresses at 0", FROM_ADDRESSES, 0, 0},
	{"addresses in the windows of host memory", FROM_ADDRESSES, 0, HOST_SPACE},
	{"addresses that begin in a window", FROM_ADDRESSES, 0, DEVICE_SPACE + UNIT},
	{"no addresses", FROM_ADDRESSES, 1, 0},
	{"addresses of half a window", FROM_ADDRESSES, 1, VA_WINDOW / 2},
	{"addresses that end behind all windows", FROM_ADDRESSES, 1,
		DEVICE_SPACE_END - DEVICE_SPACE},
	{"fewer mappings", FROM_ADDRESSES, 2, 3},
	{"more mappings", FROM_ADDRESSES, 2, 5},
	{"a mapping below its addresses", FROM_ADDRESSES, MAPPING(0), DEVICE_SPACE},
	{"a mapping behind its addresses", FROM_ADDRESSES, MAPPING(3), DEVICE_SPACE_END - UNIT},
	{"a mapping without bytes", FROM_ADDRESSES, MAPPING(3) + 1, 0},
	{"a mapping of more than its addresses", FROM_ADDRESSES, MAPPING(3) + 1, VA_WINDOW},
	{"a mapping that is smaller than its memory", FROM_ADDRESSES, MAPPING(0) + 1, UNIT / 2},
	{"a mapping of more than its import", FROM_ADDRESSES | FOUND_LATE, MAPPING(3) + 1,
		2 * UNIT},
	{"a mapping of no allocation", FROM_ADDRESSES, MAPPING(0) + 2, 4},
	{"a mapping of another allocation's size", FROM_ADDRESSES, MAPPING(1) + 2, 0},
	{"access for GPUs that are not there", FROM_ADDRESSES, MAPPING(0) + 3, UINT64_MAX},
	{"access for writing alone", FROM_ADDRESSES, MAPPING(0) + 3, 0},

	{"more arrays", FROM_END, -5, 3},
	{"fewer arrays", FROM_END, -5, 1},
	{"no arrays", FROM_END, -5, 0},
	{"more arrays than IDs", FROM_END, -5, WIRE_ARRAYS_MAX + 1},
	{"more arrays than numbers", FROM_END, -5, WIRE_ARRAYS_MAX},
	{"two arrays of an ID", FROM_END, -4, MIPMAP},
	{"an array with an ID that is too large", FROM_END, -2, WIRE_ARRAYS_MAX},
	{"an array that is smaller than its file", FROM_END, -3, 4},
	{"an array that is larger than its file", FROM_END, -1, ARRAY_BYTES},
	{"an array of a negative size", FROM_END, -1, UINT64_MAX},
	{"two arrays whose sizes overflow", FROM_END, -1, INT64_MAX},

	{"pieces that nobody has touched", FROM_REGION | FOUND_LATE, 3, UINT64_MAX},
};

static size_t place_of(const struct pack *pack, const struct row *row)
{
	const unsigned from = row->from & ~FOUND_LATE;
	const uint64_t keys[] = {
		[FROM_HEAP] = heap,
		[FROM_REGION] = region,
		[FROM_RUN] = alias & ~(VA_WINDOW - 1),
		[FROM_ADDRESSES] = addresses,
	};
	size_t at = from == FROM_END ? pack->size : 0;

	/* Numbers are aligned. */
	while (from != FROM_START && from != FROM_END &&
		memcmp(pack->bytes + at, &keys[from], sizeof(keys[0])) != 0) {
		at += sizeof(keys[0]);
		assert_true(at < pack->size);
	}
	return at + (size_t)(row->at * (int)sizeof(keys[0]));
}

static void test_wrong(void **state)
{
	struct pack pack, wrong;
	unsigned n_fds;
	int r;

	(void)state;
	has_arrays = true;
	pack_session(&pack);
	n_fds = count_open_fds();
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t at = place_of(&pack, &rows[i]);

		wrong = copy_of(&pack, pack.size, pack.n_fds);
		assert_true(at <= pack.size - sizeof(rows[i].value));
		memcpy(wrong.bytes + at, &rows[i].value, sizeof(rows[i].value));
		r = unpack(&wrong);
		if (r >= 0 || !fds_are(n_fds) || is_wrong_before == !!(rows[i].from & FOUND_LATE))
			fail_msg("%s: %d, and %u descriptors for %u", rows[i].name, r, count_fds(),
				n_fds);
	}
	wrong = copy_of(&pack, pack.size, pack.n_fds);
	assert_int_equal(unpack(&wrong), 0);
	pack_fini(&pack);
}

static void test_lengths(void **state)
{
	struct pack pack, wrong;
	unsigned n_fds;

	(void)state;
	has_arrays = true;
	pack_session(&pack);
	n_fds = count_open_fds();
	for (size_t size = 0; size < pack.size; size += MIN(36u, pack.size - size)) {
		wrong = copy_of(&pack, size, pack.n_fds);
		assert_true(unpack(&wrong) < 0 && is_wrong_before);
	}
	for (unsigned i = 0; i <= pack.n_fds + 1; i++) {
		wrong = copy_of(&pack, pack.size, i);
		assert_int_equal(unpack(&wrong) == 0, i == pack.n_fds);
		assert_int_equal(is_wrong_before, i != pack.n_fds);
	}
	wrong = copy_of(&pack, pack.size + 1, pack.n_fds);
	assert_true(unpack(&wrong) < 0);
	assert_true(fds_are(n_fds));
	pack_fini(&pack);
}

/* Whatever comes, the driver and the account get everything back: harness_close() looks. */
static void change_at_random(void)
{
	struct pack pack, wrong;
	unsigned n_fds;
	int r;

	has_arrays = true;
	pack_session(&pack);
	n_fds = count_open_fds();
	for (unsigned i = 0; i < RANDOM_ROWS / 2; i++) {
		wrong = copy_of(&pack, pack.size, pack.n_fds);
		for (int n = rand() % 4; n >= 0; n--)
			wrong.bytes[(size_t)rand() % wrong.size] ^= (uint8_t)(1 << rand() % 8);
		r = unpack(&wrong);
		assert_true(r < 0 || !is_wrong_before);
	}
	assert_true(fds_are(n_fds));
	pack_fini(&pack);
}

static void test_random(void **state)
{
	(void)state;
	srand(seed_read(1));
	change_at_random();
	is_evicted = true;
	change_at_random();
	is_evicted = false;
}

/* The file of a pack has the size that the frame says. */
static void test_file(void **state)
{
	struct pack pack = {0}, loaded = {0};
	int fd;

	(void)state;
	pack_put_number(&pack, 5);
	pack_put_number(&pack, 7);
	assert_int_equal(pack_store(&pack, &fd), 0);
	assert_true(pack_load(&loaded, fd, PACK_BYTES_MAX + 1ull) < 0);
	assert_true(pack_load(&loaded, fd, UINT64_MAX) < 0);
	assert_true(pack_load(&loaded, fd, 1 << 20) < 0);
	assert_true(pack_load(&loaded, -EBADF, 16) < 0);
	assert_int_equal(loaded.size, 0);
	assert_int_equal(pack_load(&loaded, fd, 16), 0);
	assert_int_equal(pack_get_number(&loaded, 5), 5);
	assert_false(pack_is_used_up(&loaded));
	assert_int_equal(pack_get_number(&loaded, 6), 0);
	assert_true(loaded.is_bad);
	assert_int_equal(pack_get_fd(&loaded), -EBADF);
	close(fd);
	pack_fini(&pack);
	pack_fini(&loaded);
}

static bool takes_space(const void __shm *bytes)
{
	const uintptr_t page = (uintptr_t)bytes & -(uintptr_t)getpagesize();
	unsigned char is_resident = 0;

	assert_int_equal(mincore((void *)page, 1, &is_resident), 0);
	return is_resident & 1;
}

/* What the page before has; what was never written takes no space in the next one. */
static void test_words(void **state)
{
	struct page __shm *before, *page;
	void __shm *map;
	int fd;

	assert_int_equal(open_session(state), 0);
	page = harness.session->page;
	assert_int_equal(shm_create("before", PAGE_BYTES, SHM_OURS, &fd, &map), 0);
	before = map;
	shm_store32(&before->head, 3);
	shm_store64(&before->timeline[STREAM], 7);
	memset(shm_raw(before->reply[8].bytes), 5, REPLY_MAX);
	memset(shm_raw(before->reply[REPLY_SLOTS - 1].bytes), 6, REPLY_MAX);
	session_take_words(harness.session, before, fd);
	assert_int_equal(shm_load32(&page->head), 3);
	assert_int_equal(shm_load64(&page->timeline[STREAM]), 7);
	assert_memory_equal(shm_raw(page->reply[8].bytes), shm_raw(before->reply[8].bytes),
		(size_t)2 * REPLY_MAX);
	assert_memory_equal(shm_raw(page->reply[REPLY_SLOTS - 1].bytes),
		shm_raw(before->reply[REPLY_SLOTS - 1].bytes), REPLY_MAX);
	assert_false(takes_space(page->reply[32].bytes + 8192));
	shm_unmap(map, PAGE_BYTES);
	close(fd);
	close_session(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_evicted),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_words),
	};

	host_store_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
