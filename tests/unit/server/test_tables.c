/* SPDX-License-Identifier: Apache-2.0 */

/* Bitmaps, IDs, owners and ranges of the server. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/util/bitmap.h"
#include "server/util/handle_table.h"
#include "server/driver/owner.h"
#include "server/util/ranges.h"

static void test_bits(void **state)
{
	uint64_t words[BITS_WORDS(200)] = {0};

	(void)state;
	assert_int_equal(bitmap_find_clear(words, 200, 200), 0);
	assert_int_equal(bitmap_find_clear(words, 200, 201), -ENOSPC);
	bitmap_fill(words, 3, 130, true);
	assert_int_equal(words[1], UINT64_MAX);
	assert_int_equal(bitmap_find_clear(words, 200, 3), 0);
	assert_int_equal(bitmap_find_clear(words, 200, 4), 133);
	assert_int_equal(bitmap_find_clear(words, 200, 67), 133);
	assert_int_equal(bitmap_find_clear(words, 200, 68), -ENOSPC);
	bitmap_fill(words, 60, 70, false);
	assert_int_equal(bitmap_find_clear(words, 200, 70), 60);
	assert_true(bit_get(words, 59));
	assert_false(bit_get(words, 60));
}

static void test_objects(void **state)
{
	static struct handle_table table;
	int a, b;

	(void)state;
	assert_null(handle_get(&table, 5));
	assert_int_equal(handle_put(&table, 5, &a), 0);
	assert_int_equal(handle_put(&table, 5, &b), -EEXIST);
	assert_int_equal(handle_put(&table, OBJECT_IDS - 1, &b), 0);
	assert_int_equal(handle_put(&table, OBJECT_IDS, &b), -EINVAL);
	assert_int_equal(handle_put(&table, UINT32_MAX, &b), -EINVAL);
	assert_ptr_equal(handle_get(&table, 5), &a);
	assert_null(handle_get(&table, 6));
	assert_null(handle_get(&table, OBJECT_IDS));
	assert_int_equal(table.n_used, 2);
	assert_ptr_equal(handle_remove(&table, 5), &a);
	assert_null(handle_remove(&table, 5));
	assert_int_equal(table.n_used, 1);
	handle_table_fini(&table);
}

static void test_owners(void **state)
{
	struct owner a = {.session = 1, .device = 0}, b = {.session = 2, .device = 3};
	int first = owner_take(a, 0, 2), second = owner_take(b, 0, 3);

	(void)state;
	assert_int_equal(first, 0);
	assert_int_equal(second, 2);
	assert_int_equal(owner_of(owner_address(1) + SPACE_UNIT - 1).session, 1);
	assert_int_equal(owner_of(owner_address(2)).session, 2);
	assert_int_equal(owner_of(owner_address(4)).device, 3);
	assert_int_equal(owner_of(owner_address(5)).session, 0);
	assert_int_equal(owner_of(DEVICE_SPACE - 1).session, 0);
	assert_int_equal(owner_of(DEVICE_SPACE_END).session, 0);
	assert_int_equal(owner_of(0).session, 0);
	assert_int_equal(owner_take(a, 0, UINT32_MAX), -ENOSPC);
	assert_int_equal(owner_take(a, 0, 0), -ENOSPC);
	owner_give_back(0, 2);
	assert_int_equal(owner_of(owner_address(1)).session, 0);
	assert_int_equal(owner_last(owner_address(1)).session, 1);
	assert_int_equal(owner_last(owner_address(2)).session, 2);
	assert_int_equal(owner_last(owner_address(5)).session, 0);
	assert_int_equal(owner_take(a, 0, 3), 5);
	assert_int_equal(owner_take(a, 0, 2), 0);
	owner_give_back(0, 8);
}

static void test_ranges(void **state)
{
	struct ranges ranges = {0};
	int a, b;

	(void)state;
	assert_false(ranges_have(&ranges, 100, 1));
	assert_int_equal(ranges_add(&ranges, 1000, 10, &a), 0);
	assert_int_equal(ranges_add(&ranges, 1000, 10, &a), 0);
	assert_int_equal(ranges.n, 1);
	assert_int_equal(ranges_add(&ranges, 1000, 10, &b), -EEXIST);
	assert_int_equal(ranges_add(&ranges, 1009, 10, &b), -EEXIST);
	assert_int_equal(ranges_add(&ranges, 995, 6, &b), -EEXIST);
	assert_int_equal(ranges_add(&ranges, 995, 5, &b), 0);
	assert_int_equal(ranges_add(&ranges, 1010, 5, &b), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(ranges_add(&ranges, 5000 - 10 * i, 10, &a), 0);
	assert_true(ranges_have(&ranges, 995, 5));
	assert_false(ranges_have(&ranges, 995, 6));
	assert_true(ranges_have(&ranges, 1003, 7));
	assert_false(ranges_have(&ranges, 1003, 8));
	assert_false(ranges_have(&ranges, 1003, UINT64_MAX));
	ranges_remove(&ranges, &a);
	assert_int_equal(ranges.n, 2);
	assert_false(ranges_have(&ranges, 1003, 1));
	assert_true(ranges_have(&ranges, 1010, 5));
	ranges_fini(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_ranges),
	};

	return cmocka_run_group_tests_name("server tables", tests, NULL, NULL);
}
