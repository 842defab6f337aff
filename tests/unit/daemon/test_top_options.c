/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The options of top.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_options.h"

static int options_read(struct top_options *options, char *const *arguments)
{
	struct error_message error;

	return top_options_read(options, arguments, &error);
}

#define READ(...) options_read(&options, (char *[]){"top", ##__VA_ARGS__, NULL})

static void test_values(_unused_ void **state)
{
	struct top_options options;

	assert_int_equal(READ(), 0);
	assert_int_equal(options.interval_ms, 1000);
	assert_int_equal(options.n_samples, 0);
	assert_false(options.is_once || options.is_json);
	assert_int_equal(READ("--json", "-d", "0.25", "-n3", "--once"), 0);
	assert_int_equal(options.interval_ms, 250);
	assert_int_equal(options.n_samples, 3);
	assert_true(options.is_once && options.is_json);
	assert_int_equal(READ("-d3600", "--iterations=1"), 0);
	assert_int_equal(options.interval_ms, 3600000);
}

static void test_errors(_unused_ void **state)
{
	struct top_options options;

	assert_int_equal(READ("-d", "0"), -EINVAL);
	assert_int_equal(READ("-d", "-1"), -EINVAL);
	assert_int_equal(READ("-d", "nan"), -EINVAL);
	assert_int_equal(READ("-d", "inf"), -EINVAL);
	assert_int_equal(READ("-d", "1s"), -EINVAL);
	assert_int_equal(READ("-d", ""), -EINVAL);
	assert_int_equal(READ("-d"), -EINVAL);
	assert_int_equal(READ("-n", "0"), -EINVAL);
	assert_int_equal(READ("-n", "1000000001"), -EINVAL);
	assert_int_equal(READ("-x"), -EINVAL);
	assert_int_equal(READ("--once", "now"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
