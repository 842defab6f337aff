/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers in environment variables. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "server/util/number.h"

static uint64_t read_setting(void)
{
	return number_setting("MPS_TEST_NUMBER", "apples", 2, 9, 5);
}

static void test_setting(void **state)
{
	(void)state;
	unsetenv("MPS_TEST_NUMBER");
	assert_int_equal(read_setting(), 5);
	setenv("MPS_TEST_NUMBER", "", 1);
	assert_int_equal(read_setting(), 5);
	setenv("MPS_TEST_NUMBER", "2", 1);
	assert_int_equal(read_setting(), 2);
	setenv("MPS_TEST_NUMBER", "9", 1);
	assert_int_equal(read_setting(), 9);
	setenv("MPS_TEST_NUMBER", "1", 1);
	assert_int_equal(read_setting(), 5);
	setenv("MPS_TEST_NUMBER", "10", 1);
	assert_int_equal(read_setting(), 5);
	setenv("MPS_TEST_NUMBER", "many", 1);
	assert_int_equal(read_setting(), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
