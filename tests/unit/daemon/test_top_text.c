/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Foreign text in lines of a terminal: nothing of it disturbs the terminal or its columns.
 */

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_text.h"

static void check(const char *text, unsigned n_columns, const char *want, unsigned want_columns)
{
	struct top_line line;

	top_line_init(&line, TOP_COLUMNS_MAX);
	top_line_put(&line, text, n_columns);
	assert_string_equal(line.text, want);
	assert_int_equal(line.size, strlen(want));
	assert_int_equal(line.n_columns, want_columns);
}

static void use_locale(const char *name)
{
	assert_non_null(setlocale(LC_CTYPE, name));
}

static void test_plain(_unused_ void **state)
{
	use_locale("C.UTF-8");
	assert_true(top_text_is_utf8());
	check("", 5, "", 0);
	check("./train", 7, "./train", 7);
	check("./train", 6, "./tra+", 6);
	check("./train", 1, "+", 1);
	check("./train", 0, "", 0);
}

static void test_hostile(_unused_ void **state)
{
	use_locale("C.UTF-8");
	check("a\x1b[2Jb\r\n\t\x7f", 20, "a?[2Jb????", 10);
	/* A C1 control, half a character, one that turns the direction, one that combines. */
	check("\xc2\x9b", 20, "??", 2);
	check("\xe2\x82", 20, "??", 2);
	check("a\xe2\x80\xae"
	      "b",
		20, "a???b", 5);
	check("e\xcc\x81", 20, "e?", 2);
}

static void test_wide(_unused_ void **state)
{
	use_locale("C.UTF-8");
	check("日本", 4, "日本", 4);
	check("日本", 3, "日+", 3);
	/* Half of a character would stay: a column is left. */
	check("日本", 2, "+", 1);
	check("äöü", 2, "ä+", 2);
	assert_int_equal(top_text_columns("日本x", 20), 5);
	assert_int_equal(top_text_columns("日本x", 3), 3);
}

static void test_other_locale(_unused_ void **state)
{
	use_locale("C");
	assert_false(top_text_is_utf8());
	check("日本x", 20, "??x", 3);
	use_locale("C.UTF-8");
}

static void test_alignment(_unused_ void **state)
{
	struct top_line line;

	use_locale("C.UTF-8");
	top_line_init(&line, 14);
	top_line_put_left(&line, "日", 4);
	top_line_put_right(&line, "12", 4);
	assert_string_equal(line.text, "日    12");
	top_line_put_right(&line, "1234567", 4);
	assert_string_equal(line.text, "日    12123+");
	/* The line has 14 columns. */
	top_line_put_left(&line, "x", 9);
	assert_string_equal(line.text, "日    12123+x ");
	top_line_put_right(&line, "x", 9);
	assert_int_equal(line.n_columns, 14);
	top_line_printf(&line, "%d", 7);
	assert_int_equal(line.n_columns, 14);
}

/* The longest characters in the widest line. */
static void test_size(_unused_ void **state)
{
	char text[4 * TOP_COLUMNS_MAX + 8] = "";
	struct top_line line;

	use_locale("C.UTF-8");
	for (size_t i = 0; i + 4 < sizeof(text); i += 4)
		strcat(text, "\xf0\x9d\x94\xb8");
	top_line_init(&line, 100000);
	top_line_put(&line, text, 100000);
	assert_int_equal(line.n_columns, TOP_COLUMNS_MAX);
	assert_true(line.size < sizeof(line.text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_other_locale),
		cmocka_unit_test(test_alignment),
		cmocka_unit_test(test_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
