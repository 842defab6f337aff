/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The last minute of a value: samples at any interval, and the levels of its graph.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_history.h"

#define S 1000000000ull
#define NOW (1000 * S)

/* The levels as ASCII. */
static void check(const struct top_history *history, uint64_t now_ns, unsigned n, const char *want)
{
	char graph[TOP_HISTORY_S + 1] = "";

	for (unsigned i = 0; i < n; i++)
		strcat(graph, top_history_glyph(top_history_level(history, now_ns, i, n), false));
	assert_string_equal(graph, want);
}

static void test_empty(_unused_ void **state)
{
	struct top_history history = {0};

	check(&history, NOW, 6, "      ");
	check(&history, 0, 6, "      ");
}

static void test_parts(_unused_ void **state)
{
	struct top_history history = {0};

	/* The 60 seconds that end with second 1000 begin with 941. */
	top_history_add(&history, 951 * S, 961 * S, 0);
	top_history_add(&history, 961 * S, 971 * S, 1);
	top_history_add(&history, 971 * S, 981 * S, 0.5);
	top_history_add(&history, 981 * S, 991 * S, 0.1);
	check(&history, NOW, 6, " _#=. ");
	/* Five seconds later, the parts have moved. */
	check(&history, 1005 * S, 6, "_=+:. ");
	check(&history, 1059 * S, 6, "      ");
	check(&history, 2000 * S, 6, "      ");
}

/* Several samples in a second, and one over several seconds. */
static void test_intervals(_unused_ void **state)
{
	struct top_history history = {0};

	for (unsigned i = 0; i < 10; i++)
		top_history_add(&history, NOW + i * S / 10, NOW + (i + 1) * S / 10, i > 0);
	assert_int_equal(top_history_level(&history, NOW, 59, 60), 6);
	top_history_add(&history, NOW + S, NOW + 200 * S, 1);
	check(&history, NOW + 199 * S, 10, "##########");
}

static void test_bounds(_unused_ void **state)
{
	struct top_history history = {0};

	top_history_add(&history, 0, 2 * S, 7);
	assert_int_equal(top_history_level(&history, S, 59, 60), TOP_LEVELS - 1);
	assert_int_equal(top_history_level(&history, S, 0, 60), TOP_LEVEL_UNKNOWN);
	top_history_add(&history, 5 * S, 5 * S, 1);
	assert_int_equal(top_history_level(&history, 5 * S, 59, 60), TOP_LEVEL_UNKNOWN);
	assert_string_equal(top_history_glyph(7, true), "█");
	assert_string_equal(top_history_glyph(8, true), " ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
