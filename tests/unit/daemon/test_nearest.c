/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Misspelt words and the words that they may mean.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/nearest.h"

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
	check("idle__s", "idle_s");
	check("idlle_s", "idle_s");
	check("ILDE_S", "idle_s");
	check("x", NULL);
	check("ms", NULL);
	check("metrics", NULL);
	check("", NULL);
	assert_null(nearest_word("x", NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
