/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers in text and in environment variables. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "server/util/number.h"

static void test_text(void **state)
{
	static const char *const bad[] = {"", " ", " 1", "1 ", "-1", "+1", "1x", "0x1", "1.5", "11",
		"18446744073709551616", "99999999999999999999999"};
	uint64_t number = 0;

	(void)state;
	assert_true(number_read("0", 0, &number));
	assert_int_equal(number, 0);
	assert_true(number_read("010", 10, &number));
	assert_int_equal(number, 10);
	assert_true(number_read("18446744073709551615", UINT64_MAX, &number));
	assert_int_equal(number, UINT64_MAX);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(number_read(bad[i], 10, &number));
	assert_false(number_read("18446744073709551616", UINT64_MAX, &number));
}

static void test_setting(void **state)
{
	const struct number_setting setting = {"MPS_TEST_NUMBER", "apples", 2, 9, 5};

	(void)state;
	unsetenv("MPS_TEST_NUMBER");
	assert_int_equal(number_setting_read(&setting), 5);
	setenv("MPS_TEST_NUMBER", "", 1);
	assert_int_equal(number_setting_read(&setting), 5);
	setenv("MPS_TEST_NUMBER", "2", 1);
	assert_int_equal(number_setting_read(&setting), 2);
	setenv("MPS_TEST_NUMBER", "9", 1);
	assert_int_equal(number_setting_read(&setting), 9);
	setenv("MPS_TEST_NUMBER", "1", 1);
	assert_int_equal(number_setting_read(&setting), 5);
	setenv("MPS_TEST_NUMBER", "10", 1);
	assert_int_equal(number_setting_read(&setting), 5);
	setenv("MPS_TEST_NUMBER", "many", 1);
	assert_int_equal(number_setting_read(&setting), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
