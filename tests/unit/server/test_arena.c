/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arenas over the counting driver, which aborts on a double unmap, a mapping outside
 * the reservation and similar errors.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/driver/owner.h"
#include "server/share/arena.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/unit/seed.h"

#define MIB (1ull << 20)
#define SESSION 7

static struct arena arena;

static int start(void **state)
{
	(void)state;
	fake_cuda_start();
	return 0;
}

static int open_arena(void **state)
{
	(void)state;
	fake_switches.memory = FAKE_MEMORY;
	fake_switches.blocked = 0;
	fake_switches.fail_next = 0;
	device_enter(device_get(0));
	return arena_init(&arena, device_get(0), SESSION, NULL, 0) == CUDA_SUCCESS ? 0 : -1;
}

static int close_arena(void **state)
{
	(void)state;
	arena_fini(&arena, false);
	assert_int_equal(fake_counts.reservations, 0);
	assert_int_equal(fake_counts.allocations, 0);
	assert_int_equal(fake_counts.mappings, 0);
	return 0;
}

static uint64_t alloc(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(arena_alloc(&arena, size, &address), CUDA_SUCCESS);
	assert_int_equal(address % ARENA_ALIGN, 0);
	assert_true(arena_has(&arena, address, size));
	assert_int_equal(owner_of(address).session, SESSION);
	return address;
}

static void test_small_pieces_share_a_chunk(void **state)
{
	uint64_t a = alloc(1), b = alloc(513), c = alloc(MIB);

	(void)state;
	assert_int_equal(fake_counts.allocations, 1);
	assert_int_equal(b - a, 512);
	assert_int_equal(c - b, 1024);
	assert_int_equal(arena_free(&arena, b), CUDA_SUCCESS);
	assert_int_equal(alloc(1024), b);
	assert_int_equal(arena_free(&arena, a), CUDA_SUCCESS);
	assert_int_equal(arena_free(&arena, c), CUDA_SUCCESS);
	assert_int_equal(arena_free(&arena, b), CUDA_SUCCESS);
}

/* Access to the existing chunks, used or free, and to later ones. */
static void test_other_gpus_get_access(void **state)
{
	uint64_t small = alloc(1), large = alloc(5 * MIB);

	(void)state;
	assert_int_equal(arena_free(&arena, large), CUDA_SUCCESS);
	fake_calls.accesses_set = 0;
	assert_int_equal(arena_grant_access(&arena, device_get(0)), CUDA_SUCCESS);
	assert_int_equal(fake_calls.accesses_set, 2);
	assert_int_equal(alloc(5 * MIB), large);
	assert_int_equal(fake_calls.accesses_set, 2);
	/* For its own GPU, and for the other. */
	alloc(7 * MIB);
	assert_int_equal(fake_calls.accesses_set, 4);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(arena_grant_access(&arena, device_get(0)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(arena_free(&arena, small), CUDA_SUCCESS);
}

/* A large chunk has memory in parts: either all of them, or none. */
static void test_parts(void **state)
{
	uint64_t address;

	(void)state;
	fake_switches.memory = 300 * MIB;
	assert_int_equal(arena_alloc(&arena, 400 * MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(fake_counts.allocations, 0);
	address = alloc(300 * MIB);
	assert_int_equal(fake_counts.allocations, 3);
	assert_int_equal(arena_free(&arena, address + 128 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, address), CUDA_SUCCESS);
	assert_int_equal(alloc(300 * MIB), address);
	assert_int_equal(fake_counts.allocations, 3);
	assert_int_equal(arena_free(&arena, address), CUDA_SUCCESS);
	arena_trim(&arena);
	assert_int_equal(fake_counts.allocations, 0);
}

static void test_only_starts_are_freed(void **state)
{
	uint64_t a = alloc(2048), b = alloc(512), large = alloc(5 * MIB);

	(void)state;
	assert_int_equal(arena_free(&arena, a + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, a + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, b + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, large + 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, arena.base - 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, arena.base + arena.size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, large), CUDA_SUCCESS);
	assert_int_equal(arena_free(&arena, large), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(arena_free(&arena, a), CUDA_SUCCESS);
	assert_int_equal(arena_free(&arena, a), CUDA_ERROR_INVALID_VALUE);
}

static void test_freed_memory_is_out_of_reach(void **state)
{
	uint64_t large = alloc(4 * MIB);

	(void)state;
	assert_false(arena_has(&arena, large, 4 * MIB + 1));
	assert_false(arena_has(&arena, large - 1, 2));
	assert_false(arena_has(&arena, large, UINT64_MAX));
	assert_false(arena_has(&arena, UINT64_MAX, 2));
	arena_free(&arena, large);
	assert_false(arena_has(&arena, large, 1));
	assert_int_equal(alloc(4 * MIB), large);
	arena_free(&arena, large);
	assert_int_equal(fake_counts.mappings, 1);
	arena_trim(&arena);
	assert_int_equal(fake_counts.mappings, 0);
	assert_int_equal(arena.unused_bytes, 0);
	assert_int_equal(arena.mapped, 0);
}

static void test_neighbouring_chunks_are_one_range(void **state)
{
	uint64_t a = alloc(2 * MIB), b = alloc(4 * MIB);

	(void)state;
	assert_int_equal(b - a, 2 * MIB);
	assert_true(arena_has(&arena, a, 6 * MIB));
	arena_free(&arena, b);
	assert_false(arena_has(&arena, a, 6 * MIB));
}

static void test_out_of_memory(void **state)
{
	uint64_t address;

	(void)state;
	fake_switches.memory = 8 * MIB;
	alloc(6 * MIB);
	assert_int_equal(arena_alloc(&arena, 4 * MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(arena_alloc(&arena, FAKE_MEMORY * 4, &address), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(arena_alloc(&arena, UINT64_MAX, &address), CUDA_ERROR_OUT_OF_MEMORY);
	alloc(2 * MIB);
	assert_int_equal(arena.mapped, 8 * MIB);
}

/* Unused chunks count as well, because they exist. */
static void test_limit(void **state)
{
	struct device_quota *memory = device_quota_new(NULL, 8 * MIB);
	uint64_t address, large;

	(void)state;
	assert_non_null(memory);
	arena.memory = device_quota_ref(memory);
	large = alloc(6 * MIB);
	assert_int_equal(arena_alloc(&arena, 4 * MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	alloc(1);
	assert_int_equal(quota_left(&memory->quota), 0);
	assert_int_equal(arena_free(&arena, large), CUDA_SUCCESS);
	assert_int_equal(arena_alloc(&arena, 4 * MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	arena_trim(&arena);
	assert_int_equal(quota_left(&memory->quota), 6 * MIB);
	fake_switches.fail_next = CUDA_ERROR_UNKNOWN;
	assert_int_equal(arena_alloc(&arena, 4 * MIB, &address), CUDA_ERROR_UNKNOWN);
	assert_int_equal(quota_left(&memory->quota), 6 * MIB);
	alloc(6 * MIB);
	arena_fini(&arena, false);
	assert_int_equal(quota_used(&memory->quota), 0);
	device_quota_unref(memory);
}

static void test_failed_calls_leave_nothing(void **state)
{
	struct fake_counts before = fake_counts;
	uint64_t address;

	(void)state;
	fake_switches.fail_next = CUDA_ERROR_UNKNOWN;
	assert_int_equal(arena_alloc(&arena, 4 * MIB, &address), CUDA_ERROR_UNKNOWN);
	assert_int_equal(fake_counts.allocations, before.allocations);
	assert_int_equal(arena.mapped, 0);
	alloc(4 * MIB);
}

static uint64_t count_free(void)
{
	uint64_t n_free = 0, total = 0;

	assert_int_equal(device_memory_info(device_get(0), &n_free, &total), CUDA_SUCCESS);
	assert_int_equal(total, FAKE_MEMORY);
	return n_free;
}

/* Memory that a session keeps without using it can be reclaimed. */
static void test_unused_memory_is_free(void **state)
{
	static struct arena other;
	uint64_t large = alloc(8 * MIB), small = alloc(1), address;

	(void)state;
	assert_int_equal(arena_init(&other, device_get(0), SESSION + 1, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(arena_alloc(&other, 4 * MIB, &address), CUDA_SUCCESS);
	assert_int_equal(count_free(), FAKE_MEMORY - 14 * MIB);
	assert_int_equal(arena_free(&other, address), CUDA_SUCCESS);
	assert_int_equal(count_free(), FAKE_MEMORY - 10 * MIB);
	arena_free(&arena, large);
	arena_free(&arena, small);
	assert_int_equal(count_free(), FAKE_MEMORY);
	assert_int_equal(alloc(8 * MIB), large);
	assert_int_equal(count_free(), FAKE_MEMORY - 8 * MIB);
	arena_trim(&arena);
	arena_fini(&other, false);
	assert_int_equal(device_get(0)->unused, 0);
	assert_int_equal(count_free(), FAKE_MEMORY - 8 * MIB);
}

static CUresult (*real_unmap)(CUdeviceptr address, size_t size);
static uint64_t unused_before[4]; /* the unused bytes before each unmapping */
static unsigned n_unmapped;

static CUresult unmap(CUdeviceptr address, size_t size)
{
	unused_before[n_unmapped++ % 4] = device_get(0)->unused;
	assert_int_equal(device_get(0)->closing, device_get(0)->unused);
	return real_unmap(address, size);
}

/* Used or not: from the unmapping of the first chunk until the driver has them all. */
static void test_memory_of_the_ended_is_free(void **state)
{
	static struct arena other;
	uint64_t address;

	(void)state;
	for (int is_fini = 0; is_fini < 2; is_fini++) {
		assert_int_equal(
			arena_init(&other, device_get(0), SESSION + 1, NULL, 0), CUDA_SUCCESS);
		arena_alloc(&other, 4 * MIB, &address);
		arena_free(&other, address);
		arena_alloc(&other, 1, &address);
		arena_alloc(&other, 6 * MIB, &address);
		n_unmapped = 0;
		real_unmap = cuda.cuMemUnmap;
		cuda.cuMemUnmap = unmap;
		if (is_fini)
			arena_fini(&other, false);
		else
			arena_end_unshared(&other);
		cuda.cuMemUnmap = real_unmap;
		assert_int_equal(n_unmapped, 3);
		assert_int_equal(unused_before[0], 12 * MIB);
		assert_int_equal(unused_before[1], 8 * MIB);
		assert_int_equal(unused_before[2], 6 * MIB);
		assert_int_equal(device_get(0)->unused, 0);
		assert_int_equal(device_get(0)->closing, 0);
		assert_int_equal(count_free(), FAKE_MEMORY);
		arena_fini(&other, false);
	}
}

/* If the driver uses these addresses itself, other VA windows are taken. */
static void test_addresses_in_use_are_passed_over(void **state)
{
	static struct arena other;

	(void)state;
	fake_switches.blocked = owner_address(arena.va_window + arena.n_va_windows);
	assert_int_equal(arena_init(&other, device_get(0), SESSION + 1, NULL, 0), CUDA_SUCCESS);
	assert_int_not_equal(other.base, fake_switches.blocked);
	assert_int_equal(owner_of(fake_switches.blocked).session, 0);
	assert_int_equal(owner_of(other.base).session, SESSION + 1);
	arena_fini(&other, false);
	assert_int_equal(owner_of(other.base).session, 0);
}

/* Compared with a plain model: pieces never overlap, and all memory comes back. */
static void test_random(void **state)
{
	enum {
		N = 200
	};
	struct {
		uint64_t address, size;
	} live[N] = {0};
	uint32_t seed = seed_read(1);

	(void)state;
	for (int round = 0; round < 20000; round++) {
		unsigned i = (seed = seed * 1664525 + 1013904223) >> 8, slot = i % N;

		if (live[slot].address) {
			assert_int_equal(arena_free(&arena, live[slot].address), CUDA_SUCCESS);
			live[slot].address = 0;
			continue;
		}
		live[slot].size = i % 7 == 0 ? i % (9 * MIB) + 1 : i % 9000 + 1;
		live[slot].address = alloc(live[slot].size);
		for (unsigned k = 0; k < N && round % 50 == 0; k++)
			assert_true(k == slot || !live[k].address ||
				    live[k].address + live[k].size <= live[slot].address ||
				    live[slot].address + live[slot].size <= live[k].address);
	}
	for (unsigned k = 0; k < N; k++)
		if (live[k].address)
			assert_int_equal(arena_free(&arena, live[k].address), CUDA_SUCCESS);
	assert_null(arena.shared);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)
	const struct CMUnitTest tests[] = {
		TEST(test_small_pieces_share_a_chunk),
		TEST(test_other_gpus_get_access),
		TEST(test_parts),
		TEST(test_only_starts_are_freed),
		TEST(test_freed_memory_is_out_of_reach),
		TEST(test_neighbouring_chunks_are_one_range),
		TEST(test_out_of_memory),
		TEST(test_limit),
		TEST(test_failed_calls_leave_nothing),
		TEST(test_unused_memory_is_free),
		TEST(test_memory_of_the_ended_is_free),
		TEST(test_addresses_in_use_are_passed_over),
		TEST(test_random),
	};

	return cmocka_run_group_tests_name("server arena", tests, start, NULL);
}
