/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prometheus' text: its form, and that every value of a label keeps it valid.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/exposition.h"

static void check_value(const char *value, const char *want)
{
	struct labels labels = {0};
	char text[LABELS_MAX];

	labels_add(&labels, "a", value);
	snprintf(text, sizeof(text), "a=\"%s\"", want);
	assert_string_equal(labels.text, text);
	assert_int_equal(labels.size, strlen(text));
}

static void test_values(_unused_ void **state)
{
	check_value("", "");
	check_value("plain / text {}=,", "plain / text {}=,");
	check_value("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
	check_value("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	/* Half a sequence, one that is too long, a surrogate. */
	check_value("\xc3", "\xef\xbf\xbd");
	check_value("\xe2\x82x", "\xef\xbf\xbd\xef\xbf\xbdx");
	check_value("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");
	check_value("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* A value that does not fit is cut between two characters; the quotes stay closed. */
static void check_cut(const char *character, size_t size)
{
	char value[2 * LABELS_MAX] = "";
	struct labels labels = {0};

	for (size_t i = 0; i + size < sizeof(value); i += size)
		memcpy(value + i, character, size);
	labels_add(&labels, "long", value);
	assert_in_range(labels.size, LABELS_MAX - 12, LABELS_MAX - 1);
	assert_int_equal(labels.size, strlen(labels.text));
	assert_int_equal(labels.text[labels.size - 1], '"');
	assert_int_equal((labels.size - strlen("long=\"\"")) % MAX(size, (size_t)1), 0);
	/* Nothing is added after that. */
	labels_add(&labels, "next", "value");
	assert_null(strstr(labels.text, "next"));
}

static void test_cut(_unused_ void **state)
{
	check_cut("x", 1);
	check_cut("\xe2\x82\xac", 3);
	check_cut("\xf0\x9f\x98\x80", 4);
}

static void test_quotes_are_cut(_unused_ void **state)
{
	char value[LABELS_MAX];
	struct labels labels = {0};

	memset(value, '"', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	labels_add(&labels, "a", value);
	/* Each quote has its backslash, but for the first and the last one. */
	assert_int_equal((labels.size - strlen("a=\"\"")) % 2, 0);
	assert_true(labels.size < LABELS_MAX);
}

static void test_samples(_unused_ void **state)
{
	_cleanup_free_ char *text = NULL;
	struct labels labels = {0};
	size_t size;
	FILE *out = open_memstream(&text, &size);

	labels_add_number(&labels, "uid", UINT64_MAX);
	labels_add(&labels, "group", "g");
	exposition_family(out, "mps_things_total", "counter", "Things");
	exposition_number(out, "mps_things_total", &labels, UINT64_MAX);
	exposition_number(out, "mps_things_total", NULL, 0);
	exposition_ns(out, "mps_things_total", NULL, 12000000345);
	fclose(out);
	assert_string_equal(text, "# HELP mps_things_total Things\n"
				  "# TYPE mps_things_total counter\n"
				  "mps_things_total{uid=\"18446744073709551615\",group=\"g\"} "
				  "18446744073709551615\n"
				  "mps_things_total 0\n"
				  "mps_things_total 12.000000345\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_quotes_are_cut),
		cmocka_unit_test(test_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
