/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Foreign text as one word of a table.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/escape.h"

static void check(const char *text, const char *want)
{
	char word[64];

	escape_word(text, word, sizeof(word));
	assert_string_equal(word, want);
}

static void test_words(_unused_ void **state)
{
	check("/tmp/sleeper", "/tmp/sleeper");
	check("", "-");
	check("a b", "a\\x20b");
	check("a\n685 1", "a\\x0a685\\x201");
	check("\x1b[31m\x7f", "\\x1b[31m\\x7f");
	check("back\\slash", "back\\x5cslash");
	check("\xc3\xa4\xff", "\xc3\xa4\\xff");
	check("\xc2\x9b", "\\xc2\\x9b");
}

static void test_cut(_unused_ void **state)
{
	char word[8];

	escape_word("1234567890", word, sizeof(word));
	assert_string_equal(word, "1234567");
	escape_word("123456\n", word, sizeof(word));
	assert_string_equal(word, "123456");
	escape_word("123456\xc3\xa4", word, sizeof(word));
	assert_string_equal(word, "123456");
	escape_word("12345\xc3\xa4", word, sizeof(word));
	assert_string_equal(word, "12345\xc3\xa4");
	escape_word("x", word, 1);
	assert_string_equal(word, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
