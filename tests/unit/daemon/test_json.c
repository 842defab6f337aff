/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The JSON of commands: its form, and that every value keeps it valid.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/json.h"

static void test_shape(_unused_ void **state)
{
	_cleanup_(json_fini) struct json json = {0};

	json_open(&json, NULL, '{');
	json_open(&json, "list", '[');
	json_number(&json, NULL, -7);
	json_null(&json, NULL);
	json_open(&json, NULL, '{');
	json_close(&json, '}');
	json_close(&json, ']');
	json_bool(&json, "is", true);
	json_thousandths(&json, "share", 12005);
	json_string(&json, "name", "a");
	json_close(&json, '}');
	assert_false(json.failed);
	assert_string_equal(json.text, "{\"list\":[-7,null,{}],\"is\":true,\"share\":12.005,"
				       "\"name\":\"a\"}");
}

static void check(const char *value, const char *want)
{
	_cleanup_(json_fini) struct json json = {0};

	json_string(&json, NULL, value);
	assert_string_equal(json.text, want);
}

static void test_strings(_unused_ void **state)
{
	check("", "\"\"");
	check("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	check("\x01\n\t\x1f\x7f", "\"\\u0001\\u000a\\u0009\\u001f\\u007f\"");
	check("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* Characters that would change how a terminal shows the line. */
	check("a\u202e\u2066\u061c", "\"a\\u202e\\u2066\\u061c\"");
	/* Half a sequence, one that is too long, a surrogate, a C1 control. */
	check("\xc3", "\"\\ufffd\"");
	check("\xe2\x82x", "\"\\ufffd\\ufffdx\"");
	check("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	check("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	check("\xc2\x9b"
	      "a",
		"\"\\u009b"
		"a\"");
	check("\xff\xfe", "\"\\ufffd\\ufffd\"");
}

/* The names of an object's values are strings, too. */
static void test_growth(_unused_ void **state)
{
	_cleanup_(json_fini) struct json json = {0};
	char text[3001];

	memset(text, '"', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	json_open(&json, NULL, '[');
	for (int i = 0; i < 50; i++)
		json_string(&json, NULL, text);
	json_close(&json, ']');
	assert_int_equal(json.size, 2 + 50 * (2 + 2 * 3000) + 49);
	assert_int_equal(strlen(json.text), json.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
