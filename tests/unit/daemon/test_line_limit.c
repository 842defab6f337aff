/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Dropped lines are reported once: when the flood is over, or now and then.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "daemon/text/line_limit.h"

/* Causes lines until one is dropped; returns how many that took. */
static unsigned fill_limit(struct line_limit *limit, uint64_t now_ms)
{
	unsigned n = 0;
	int r;

	while ((r = line_limit_take(limit, now_ms, 10, 4)) == LINE_WRITTEN)
		n++;
	assert_int_equal(r, LINE_FIRST_DROPPED);
	return n;
}

static void test_report_after_flood(_unused_ void **state)
{
	struct line_limit limit = {0};

	assert_int_equal(line_limit_report(&limit, 5), 0);
	assert_int_equal(fill_limit(&limit, 5), 10);
	assert_int_equal(line_limit_take(&limit, 105, 10, 4), LINE_DROPPED);
	assert_int_equal(line_limit_report(&limit, 1104), 0);
	assert_int_equal(line_limit_report(&limit, 1105), 2);
	assert_int_equal(line_limit_report(&limit, 1106), 0);
	assert_int_equal(line_limit_report(&limit, UINT64_MAX), 0);
	/* The next flood is counted separately. */
	assert_int_equal(fill_limit(&limit, 1255), 5);
	assert_int_equal(line_limit_report(&limit, UINT64_MAX), 1);
}

static void test_report_during_flood(_unused_ void **state)
{
	struct line_limit limit = {0};
	unsigned long n_reported = 0, n_dropped = 0;
	unsigned n_times = 0;

	for (uint64_t now = 0; now < 60000; now += 100) {
		unsigned long n = line_limit_report(&limit, now);

		n_reported += n;
		n_times += n > 0;
		for (int i = 0; i < 3; i++)
			n_dropped += line_limit_take(&limit, now, 10, 4) != LINE_WRITTEN;
	}
	assert_in_range(n_times, 4, 6);
	assert_int_equal(n_reported + line_limit_report(&limit, UINT64_MAX), n_dropped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_after_flood),
		cmocka_unit_test(test_report_during_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
