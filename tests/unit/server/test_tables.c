/* SPDX-License-Identifier: Apache-2.0 */

/* Bitmaps, IDs, owners and ranges of the server. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/util/bitmap.h"
#include "server/util/handle_table.h"
#include "server/util/ranges.h"
#include "server/driver/owner.h"

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
	_cleanup_account_ void *block = account_alloc(NULL, 1, 0);
	int first = owner_take(block, a, 0, 2), second = owner_take(block, b, 0, 3);

	(void)state;
	assert_int_equal(first, 0);
	assert_int_equal(second, 2);
	assert_int_equal(owner_of(owner_address(1) + VA_WINDOW - 1).session, 1);
	assert_int_equal(owner_of(owner_address(2)).session, 2);
	assert_int_equal(owner_of(owner_address(4)).device, 3);
	assert_int_equal(owner_of(owner_address(5)).session, 0);
	assert_int_equal(owner_of(DEVICE_SPACE - 1).session, 0);
	assert_int_equal(owner_of(DEVICE_SPACE_END).session, 0);
	assert_int_equal(owner_of(0).session, 0);
	assert_int_equal(owner_take(block, a, 0, UINT32_MAX), -ENOSPC);
	assert_int_equal(owner_take(block, a, 0, 0), -ENOSPC);
	owner_give_back(block, 0, 2);
	assert_int_equal(owner_of(owner_address(1)).session, 0);
	assert_int_equal(owner_last(owner_address(1)).session, 1);
	assert_int_equal(owner_last(owner_address(2)).session, 2);
	assert_int_equal(owner_last(owner_address(5)).session, 0);
	assert_int_equal(owner_take(block, a, 0, 3), 5);
	assert_int_equal(owner_take(block, a, 0, 2), 0);
	owner_give_back(block, 0, 8);
}

/* A session leaves half of the VA windows of each space to others. */
static void test_windows_of_a_session(void **state)
{
	static const struct owner owners[] = {{1, 0}, {1, OWNER_RESERVED}, {1, OWNER_HOST}};
	static const enum resource windows[] = {
		RESOURCE_DEVICE_WINDOWS, RESOURCE_DEVICE_WINDOWS, RESOURCE_HOST_WINDOWS};
	struct account *account = account_new(1, (struct account_owner){0}, NULL);
	void *block = account_alloc(account, 1, 0);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(owners); i++) {
		uint32_t half = (uint32_t)resource_of_server(windows[i])->limit / 2;
		int va_window = owner_take(block, owners[i], 0, half);

		assert_true(va_window >= 0);
		assert_int_equal(account_taken(account, windows[i]), half);
		assert_int_equal(owner_take(block, owners[i], 0, 1), -ENOSPC);
		owner_give_back(block, (uint32_t)va_window, half);
		assert_int_equal(account_taken(account, windows[i]), 0);
	}
	account_free(block);
	account_close(account);
}

#define MOVED 1000000u

static int add(struct ranges *ranges, uint64_t address, uint64_t size, const void *owner)
{
	return ranges_add(ranges,
		&(struct range){
			.address = address, .size = size, .real = MOVED + address, .owner = owner});
}

static void test_ranges(void **state)
{
	struct ranges ranges = {0};
	int a, b;

	(void)state;
	assert_int_equal(ranges_find(&ranges, 100, 1), 0);
	assert_int_equal(add(&ranges, 1000, 10, &a), 0);
	assert_int_equal(add(&ranges, 1000, 10, &a), 0);
	assert_int_equal(ranges.n, 1);
	assert_int_equal(add(&ranges, 1000, 10, &b), -EEXIST);
	assert_int_equal(add(&ranges, 1009, 10, &b), -EEXIST);
	assert_int_equal(add(&ranges, 995, 6, &b), -EEXIST);
	assert_int_equal(add(&ranges, 995, 5, &b), 0);
	assert_int_equal(add(&ranges, 1010, 5, &b), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(add(&ranges, 5000 - 10 * i, 10, &a), 0);
	assert_int_equal(ranges_find(&ranges, 995, 5), MOVED + 995);
	assert_int_equal(ranges_find(&ranges, 995, 6), 0);
	assert_int_equal(ranges_find(&ranges, 1003, 7), MOVED + 1003);
	assert_int_equal(ranges_find(&ranges, 1003, 8), 0);
	assert_int_equal(ranges_find(&ranges, 1003, UINT64_MAX), 0);
	ranges_remove(&ranges, &a);
	assert_int_equal(ranges.n, 2);
	assert_int_equal(ranges_find(&ranges, 1003, 1), 0);
	assert_int_equal(ranges_find(&ranges, 1010, 5), MOVED + 1010);
	ranges_fini(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_windows_of_a_session),
		cmocka_unit_test(test_ranges),
	};

	return cmocka_run_group_tests_name("server tables", tests, NULL, NULL);
}
