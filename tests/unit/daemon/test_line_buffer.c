/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A stream becomes lines that are short and safe to print, however it is divided
 * into pieces.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/line_buffer.h"

struct heard {
	size_t n;
	char text[16][LINE_MAX_SIZE + 1];
};

static void on_line(void *arg, const char *line)
{
	struct heard *heard = arg;

	assert_true(heard->n < ARRAY_SIZE(heard->text));
	assert_true(strlen(line) <= LINE_MAX_SIZE);
	snprintf(heard->text[heard->n++], sizeof(heard->text[0]), "%s", line);
}

static void test_however_cut(_unused_ void **state)
{
	static const char stream[] = "one\n\ntwo\r\nthree\tfour\nfi\0ve\nlast";

	for (size_t piece = 1; piece < sizeof(stream); piece++) {
		struct line_buffer buffer = {0};
		struct heard heard = {0};

		for (size_t i = 0; i < sizeof(stream) - 1; i += piece)
			line_buffer_feed(&buffer, stream + i, MIN(piece, sizeof(stream) - 1 - i),
				on_line, &heard);
		assert_int_equal(heard.n, 4);
		line_buffer_end(&buffer, on_line, &heard);
		line_buffer_end(&buffer, on_line, &heard);
		assert_int_equal(heard.n, 5);
		assert_string_equal(heard.text[0], "one");
		assert_string_equal(heard.text[1], "two");
		assert_string_equal(heard.text[2], "three four");
		assert_string_equal(heard.text[3], "fi?ve");
		assert_string_equal(heard.text[4], "last");
	}
}

static void test_long_line(_unused_ void **state)
{
	struct line_buffer buffer = {0};
	struct heard heard = {0};

	for (int i = 0; i < 2500; i++)
		line_buffer_feed(&buffer, "x", 1, on_line, &heard);
	line_buffer_feed(&buffer, "\n", 1, on_line, &heard);
	assert_int_equal(heard.n, 3);
	assert_int_equal(strlen(heard.text[0]), LINE_MAX_SIZE);
	assert_int_equal(strlen(heard.text[1]), LINE_MAX_SIZE);
	assert_int_equal(strlen(heard.text[2]), 2500 - 2 * LINE_MAX_SIZE);
}

static void test_clean(_unused_ void **state)
{
	char text[] = "a\x1b[31m\x07\x7f b\xc3\xa9 \xc2\x9b c\xc2\xa0";

	line_clean(text);
	assert_string_equal(text, "a?[31m?? b\xc3\xa9 ?? c\xc2\xa0");
}

/* Bytes that are not UTF-8, a raw C1 control among them. */
static void test_clean_bytes(_unused_ void **state)
{
	static const struct {
		const char *text, *clean;
	} cases[] = {
		{"\x9b"
		 "31m",
			"?31m"},
		{"a\x80\xbf\xff", "a???"},
		{"\xc3", "?"},
		{"\xc3"
		 "a",
			"?a"},
		{"\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80"},
		{"\xe2\x82", "??"},
		{"\xc0\x9b \xe0\x82\x9b \xf0\x80\x82\x9b", "?? ??? ????"},
		{"\xed\xa0\x80 \xf4\x90\x80\x80 \xf5\x80\x80\x80", "??? ???? ????"},
		{"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0"},
	};
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof(text), "%s", cases[i].text);
		line_clean(text);
		assert_string_equal(text, cases[i].clean);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_however_cut),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_clean_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
