/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The address map compared with a plain array, in random order; and slabs.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "client/util/slab.h"
#include "client/memory/address_map.h"
#include "tests/unit/seed.h"

#define PLACES 512
#define PLACE 4096u
#define STEPS 200000

static uint64_t base(unsigned place)
{
	return 0x200000000000ull + (uint64_t)place * PLACE;
}

/* The array's answer for an address. */
static bool is_inside(const uint64_t sizes[PLACES], uint64_t address)
{
	unsigned place = (unsigned)((address - base(0)) / PLACE);

	return address >= base(0) && place < PLACES && address - base(place) < sizes[place];
}

static void check_place(const struct address_map *map, const uint64_t sizes[PLACES], unsigned place)
{
	const uint64_t looks[] = {base(place), base(place) + 1, base(place) + sizes[place],
		base(place) + sizes[place] - 1, base(place) - 1};

	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		const struct memory_range *range = address_map_find(map, looks[i]);

		assert_int_equal(range != NULL, is_inside(sizes, looks[i]));
		if (range)
			assert_true(looks[i] - range->address < range->size);
	}
}

static void test_random(void **state)
{
	static uint64_t sizes[PLACES];
	struct address_map map = {0};
	unsigned seed = seed_read(1), n = 0;

	(void)state;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned place;

		seed = seed * 1103515245u + 12345u;
		place = (seed >> 16) % PLACES;
		if (sizes[place] == 0) {
			struct memory_range range = {
				.address = base(place),
				.size = 1 + seed % PLACE,
				.kind = MEMORY_ALLOCATED,
				.id = step,
			};

			assert_int_equal(address_map_add(&map, &range), 0);
			sizes[place] = range.size;
			assert_int_equal(address_map_add(&map, &range), -EEXIST);
		} else {
			assert_false(address_map_remove(&map, base(place) + 1));
			assert_true(address_map_remove(&map, base(place)));
			assert_false(address_map_remove(&map, base(place)));
			sizes[place] = 0;
		}
		check_place(&map, sizes, place);
	}
	for (uint64_t at = 0; address_map_next(&map, at); n++) {
		const struct memory_range *range = address_map_next(&map, at);

		assert_true(range->address >= at);
		at = range->address;
		assert_true(address_map_remove(&map, at));
	}
	for (unsigned place = 0; place < PLACES; place++)
		n -= sizes[place] != 0;
	assert_int_equal(n, 0);
}

static void test_overlap(void **state)
{
	struct memory_range first = {.address = 1000, .size = 100};
	struct memory_range before = {.address = 950, .size = 51};
	struct memory_range inside = {.address = 1099, .size = 1};
	struct memory_range around = {.address = 1, .size = ~0ull - 1};
	struct memory_range touching = {.address = 950, .size = 50};
	struct memory_range behind = {.address = 1100, .size = 1};
	struct address_map map = {0};

	(void)state;
	assert_int_equal(address_map_add(&map, &first), 0);
	assert_int_equal(address_map_add(&map, &before), -EEXIST);
	assert_int_equal(address_map_add(&map, &inside), -EEXIST);
	assert_int_equal(address_map_add(&map, &around), -EEXIST);
	assert_int_equal(address_map_add(&map, &touching), 0);
	assert_int_equal(address_map_add(&map, &behind), 0);
	assert_true(address_map_remove(&map, 950));
	assert_true(address_map_remove(&map, 1000));
	assert_true(address_map_remove(&map, 1100));
	assert_null(address_map_next(&map, 0));
}

struct thing {
	struct slab_head slab;
	uint64_t value;
};

static void test_slab(void **state)
{
	struct slab slab = {
		.lock = LOCK_INIT(SLAB),
		.object_size = sizeof(struct thing),
		.n_max = 3,
	};
	struct thing *things[3], *again;

	(void)state;
	assert_null(slab_find(&slab, NULL));
	for (unsigned i = 0; i < 3; i++) {
		things[i] = slab_take(&slab);
		assert_non_null(things[i]);
		assert_int_equal(things[i]->value, 0);
		assert_int_equal(slab_id(&slab, things[i]), i);
		assert_ptr_equal(slab_find(&slab, things[i]), things[i]);
		things[i]->value = 7;
	}
	assert_null(slab_take(&slab));
	assert_null(slab_find(&slab, (char *)things[1] + 1));
	assert_null(slab_find(&slab, things[2] + 1));
	assert_null(slab_find(&slab, things[0] - 1));
	assert_null(slab_find(&slab, (void *)1));
	slab_give(&slab, things[1]);
	assert_null(slab_find(&slab, things[1]));
	again = slab_take(&slab);
	assert_ptr_equal(again, things[1]);
	assert_int_equal(again->value, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_slab),
	};

	return cmocka_run_group_tests_name("client_address_map", tests, NULL, NULL);
}
