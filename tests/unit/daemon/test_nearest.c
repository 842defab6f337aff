/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Misspelt words and the words that they may mean.
 */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/nearest.h"

static void test_distance(_unused_ void **state)
{
	char long_word[NEAREST_WORD_MAX + 2];

	assert_int_equal(word_distance("", ""), 0);
	assert_int_equal(word_distance("abc", ""), 3);
	assert_int_equal(word_distance("", "abc"), 3);
	assert_int_equal(word_distance("grace_ms", "GRACE_MS"), 0);
	assert_int_equal(word_distance("kitten", "sitting"), 3);
	assert_int_equal(word_distance("idle_s", "idel_s"), 2);
	memset(long_word, 'a', sizeof(long_word));
	long_word[NEAREST_WORD_MAX] = '\0';
	assert_int_equal(word_distance(long_word, "a"), NEAREST_WORD_MAX - 1);
	assert_int_equal(word_distance("a", long_word), NEAREST_WORD_MAX - 1);
	long_word[NEAREST_WORD_MAX] = 'a';
	long_word[NEAREST_WORD_MAX + 1] = '\0';
	assert_true(word_distance(long_word, "a") == UINT_MAX);
	assert_true(word_distance("a", long_word) == UINT_MAX);
}

static void check(const char *word, const char *want)
{
	static const char *const words[] = {
		"grace_ms", "idle_s", "pipe_directory", "log_directory", "client_priority"};
	const char *found = nearest_word(word, words, ARRAY_SIZE(words));

	if (want) {
		assert_non_null(found);
		assert_string_equal(found, want);
	} else {
		assert_null(found);
	}
}

static void test_nearest(_unused_ void **state)
{
	check("grace", "grace_ms");
	check("Grace_MS", "grace_ms");
	check("idle", "idle_s");
	check("idel_s", "idle_s");
	check("priority", "client_priority");
	check("log_dir", "log_directory");
	check("client_prios", "client_priority");
	check("memory", NULL);
	check("pipe-directory", "pipe_directory");
	check("x", NULL);
	check("ms", NULL);
	check("metrics", NULL);
	check("", NULL);
	assert_null(nearest_word("x", NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
