/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Command lines: their tokens and numbers.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/tokenize.h"

static void test_split(_unused_ void **state)
{
	char line[] = "  start_server   -uid 1000 ";
	struct tokens tokens;

	tokenize_line(&tokens, line);
	assert_int_equal(tokens.n, 3);
	assert_string_equal(tokens.item[0], "start_server");
	assert_string_equal(tokens.item[1], "-uid");
	assert_string_equal(tokens.item[2], "1000");
}

static void test_split_nothing(_unused_ void **state)
{
	char empty[] = "", blank[] = "   ";
	struct tokens tokens;

	tokenize_line(&tokens, empty);
	assert_int_equal(tokens.n, 0);
	tokenize_line(&tokens, blank);
	assert_int_equal(tokens.n, 0);
}

static void test_split_too_many(_unused_ void **state)
{
	char line[1024];
	struct tokens tokens;

	memset(line, ' ', sizeof(line));
	for (size_t i = 0; i < sizeof(line); i += 2)
		line[i] = 'x';
	line[sizeof(line) - 1] = '\0';
	tokenize_line(&tokens, line);
	assert_int_equal(tokens.n, sizeof(line) / 2);
	assert_string_equal(tokens.item[TOKENS_MAX - 1], "x");
}

static void test_numbers(_unused_ void **state)
{
	uint64_t number = 7;

	assert_int_equal(parse_number("0", 10, &number), 0);
	assert_int_equal(number, 0);
	assert_int_equal(parse_number("0010", 10, &number), 0);
	assert_int_equal(number, 10);
	assert_int_equal(parse_number("18446744073709551615", UINT64_MAX, &number), 0);
	assert_true(number == UINT64_MAX);
	assert_int_equal(parse_number("4294967294", UINT32_MAX - 1, &number), 0);
	assert_int_equal(number, UINT32_MAX - 1);
}

static void test_no_numbers(_unused_ void **state)
{
	static const char *const texts[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1.5", "eleven",
		"11", "18446744073709551616", "99999999999999999999999999"};
	uint64_t number = 7;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(parse_number(texts[i], 10, &number), -EINVAL);
	assert_int_equal(parse_number("18446744073709551616", UINT64_MAX, &number), -EINVAL);
	assert_int_equal(parse_number("4", 3, &number), -EINVAL);
	assert_int_equal(number, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_split_nothing),
		cmocka_unit_test(test_split_too_many),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_no_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
