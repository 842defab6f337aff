/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Amounts with units, and that no amount is wider than a column.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/amount.h"

static void check(uint64_t amount, unsigned step, const char *want)
{
	char text[AMOUNT_TEXT];

	amount_text(amount, step, text);
	assert_string_equal(text, want);
}

static void test_units(_unused_ void **state)
{
	check(0, 1000, "0");
	check(999, 1000, "999");
	check(1000, 1000, "1.0K");
	check(12345, 1000, "12.3K");
	check(402000, 1000, "402K");
	check(1023, 1024, "1023");
	check(1024, 1024, "1.0K");
	check(3u << 20, 1024, "3.0M");
	check((uint64_t)80 << 30, 1024, "80.0G");
}

static void test_rounding(_unused_ void **state)
{
	check(99949, 1000, "99.9K");
	check(99960, 1000, "100K");
	check(999999, 1000, "1000K");
	check(UINT64_MAX, 1024, "16.0E");
	check(UINT64_MAX, 1000, "18.4E");
}

static void test_width(_unused_ void **state)
{
	char text[AMOUNT_TEXT];

	for (uint64_t amount = 1; amount < UINT64_MAX / 3; amount += amount / 7 + 1)
		for (unsigned step = 1000; step <= 1024; step += 24) {
			amount_text(amount, step, text);
			assert_true(strlen(text) <= 5);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
