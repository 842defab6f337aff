/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The JSON of commands: its form, and that every value keeps it valid.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/json.h"

/* Takes the document. */
static void check_document(json_t *document, const char *want)
{
	_cleanup_free_ char *text = json_write(document);

	assert_string_equal(text, want);
}

static void test_shape(_unused_ void **state)
{
	json_t *list = json_array();

	json_add(&list, json_integer(-7));
	json_add(&list, json_text(NULL));
	json_add(&list, json_object());
	json_add(&list, json_amount(UINT64_MAX));
	check_document(json_pack("{s:o s:b s:f s:o}", "list", list, "is", 1, "share", 12.005,
			       "name", json_text("a")),
		"{\"list\":[-7,null,{},9223372036854775807],\"is\":true,\"share\":12.005,"
		"\"name\":\"a\"}");
}

/* What is put into a document without memory, or a value without memory, leaves none. */
static void test_no_memory(_unused_ void **state)
{
	json_t *list = NULL, *object = json_object();

	json_add(&list, json_integer(1));
	assert_null(list);
	json_set(&object, "a", NULL);
	assert_null(object);
	json_set(&object, "b", json_integer(1));
	assert_null(object);
	assert_null(json_write(json_pack("{s:o s:o}", "list", list, "n", json_integer(1))));
}

/* Values one by one; one without memory leaves none. */
static void test_stream(_unused_ void **state)
{
	struct json_stream stream = {0}, failed = {0};
	_cleanup_free_ char *text = NULL;

	json_stream_put(&stream, "{\"list\":[");
	json_stream_add(&stream, json_integer(1));
	json_stream_add(&stream, json_text("a\x7f"));
	json_stream_put(&stream, "],\"n\":");
	json_stream_add(&stream, json_object());
	json_stream_put(&stream, "}");
	text = json_stream_close(&stream);
	assert_string_equal(text, "{\"list\":[1,\"a\\u007f\"],\"n\":{}}");
	json_stream_put(&failed, "[");
	json_stream_add(&failed, NULL);
	json_stream_put(&failed, "]");
	assert_null(json_stream_close(&failed));
}

static void check(const char *value, const char *want)
{
	char document[64];

	snprintf(document, sizeof(document), "[%s]", want);
	check_document(json_pack("[o]", json_text(value)), document);
}

static void test_strings(_unused_ void **state)
{
	check("", "\"\"");
	check("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	check("\x01\n\t\x1f\x7f", "\"\\u0001\\n\\t\\u001F\\u007f\"");
	check("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* Characters that would change how a terminal shows the line. */
	check("a\u202e\u2066\u061c", "\"a\\u202e\\u2066\\u061c\"");
	/* Half a sequence, one that is too long, a surrogate, a C1 control. */
	check("\xc3", "\"\ufffd\"");
	check("\xe2\x82x", "\"\ufffd\ufffdx\"");
	check("\xc0\xaf", "\"\ufffd\ufffd\"");
	check("\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\"");
	check("\xc2\x9b"
	      "a",
		"\"\\u009b"
		"a\"");
	check("\xff\xfe", "\"\ufffd\ufffd\"");
}

static void test_growth(_unused_ void **state)
{
	_cleanup_free_ char *written = NULL;
	json_t *list = json_array();
	char text[3001];

	memset(text, '"', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 50; i++)
		json_add(&list, json_text(text));
	written = json_write(list);
	assert_int_equal(strlen(written), 2 + 50 * (2 + 2 * 3000) + 49);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
