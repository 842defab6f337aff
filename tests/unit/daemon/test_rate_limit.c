/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A rate limit allows a burst, then a number per second, and no more after a pause.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "daemon/text/rate_limit.h"

static unsigned take_all(struct rate_limit *limit, uint64_t now_ms)
{
	unsigned n = 0;

	while (rate_limit_take(limit, now_ms, 10, 4))
		n++;
	return n;
}

static void test_rate_limit(_unused_ void **state)
{
	struct rate_limit limit = {0};

	assert_int_equal(take_all(&limit, 5), 10);
	assert_int_equal(take_all(&limit, 5), 0);
	assert_int_equal(take_all(&limit, 5 + 249), 0);
	assert_int_equal(take_all(&limit, 5 + 250), 1);
	assert_int_equal(take_all(&limit, 5 + 1250), 4);
	assert_int_equal(take_all(&limit, 1000000), 10);
	assert_int_equal(take_all(&limit, UINT64_MAX), 10);
	assert_int_equal(take_all(&limit, UINT64_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rate_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
