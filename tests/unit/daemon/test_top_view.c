/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keys, filters and the rows that a user sees.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_view.h"

#define N_ROWS 5

static struct top_row rows[N_ROWS];
static const struct top_table table = {.rows = rows, .n_rows = N_ROWS};

/* Rows 0 to 4: PIDs 100 to 104, users u0 to u4, the busiest last. */
static void make_rows(void)
{
	for (unsigned i = 0; i < N_ROWS; i++) {
		rows[i] = (struct top_row){.busy = i * 0.1, .client = {.pid = 100 + i}};
		snprintf(rows[i].user, sizeof(rows[i].user), "u%u", i);
		rows[i].client.command = i % 2 ? "Train" : "render";
		rows[i].client.memory = (i * 3) % N_ROWS;
		rows[i].client.group = i == 4 ? "team" : NULL;
	}
}

static void press(struct top_view *view, const char *keys)
{
	for (; *keys; keys++)
		assert_int_equal(top_view_press(view, (unsigned char)*keys), TOP_REDRAW);
}

/* The shown rows as digits. */
static void check(struct top_view *view, const char *want)
{
	const struct top_row *shown[N_ROWS];
	char text[N_ROWS + 1] = "";
	size_t n = top_view_rows(view, &table, shown);

	for (size_t i = 0; i < n; i++)
		text[i] = (char)('0' + (shown[i] - rows));
	assert_string_equal(text, want);
}

static void test_sort(_unused_ void **state)
{
	struct top_view view;

	make_rows();
	top_view_init(&view);
	check(&view, "43210");
	press(&view, "p");
	check(&view, "01234");
	press(&view, "p");
	check(&view, "43210");
	press(&view, "m");
	check(&view, "31420");
	press(&view, "r");
	check(&view, "02413");
	press(&view, "n");
	check(&view, "13024");
	press(&view, "g");
	check(&view, "40123");
	/* Only columns with a key, and round. */
	top_view_press(&view, TOP_KEY_LEFT);
	assert_int_equal(view.sort, TOP_USER);
	press(&view, "<<");
	assert_int_equal(view.sort, TOP_COMMAND);
	press(&view, "<<");
	assert_int_equal(view.sort, TOP_ERRORS);
	press(&view, ">>>");
	assert_int_equal(view.sort, TOP_PID);
	press(&view, "zZ9");
	assert_int_equal(view.sort, TOP_PID);
}

static void test_filter(_unused_ void **state)
{
	struct top_view view;

	make_rows();
	top_view_init(&view);
	/* While the user types, other keys are text. */
	press(&view, "/tra");
	check(&view, "31");
	assert_true(view.is_typing);
	press(&view, "q");
	check(&view, "");
	top_view_press(&view, TOP_KEY_BACKSPACE);
	press(&view, "\r");
	assert_false(view.is_typing);
	check(&view, "31");
	press(&view, "\x1b");
	check(&view, "43210");
	press(&view, "f102\n");
	check(&view, "2");
	press(&view, "/\x15u3\n");
	check(&view, "3");
	press(&view, "/\x15TEAM\n");
	check(&view, "4");
	snprintf(table.rows[2].kernel, sizeof(table.rows[2].kernel), "void n::scale<int>()");
	press(&view, "/\x15N::SC\n");
	check(&view, "2");
	press(&view, "/\x1b");
	check(&view, "43210");
}

static void test_filter_bytes(_unused_ void **state)
{
	struct top_view view;

	make_rows();
	top_view_init(&view);
	press(&view, "/aä");
	assert_string_equal(view.filter, "aä");
	press(&view, "\x7f");
	assert_string_equal(view.filter, "a");
	press(&view, "\x08\x08\x08\x01\x02");
	assert_string_equal(view.filter, "");
	for (int i = 0; i < 200; i++)
		top_view_press(&view, 'x');
	assert_int_equal(strlen(view.filter), TOP_FILTER_MAX - 1);
	top_view_press(&view, TOP_KEY_UP);
	assert_int_equal(strlen(view.filter), TOP_FILTER_MAX - 1);
}

static void test_scroll(_unused_ void **state)
{
	struct top_view view;

	make_rows();
	top_view_init(&view);
	view.n_page = 2;
	top_view_press(&view, TOP_KEY_DOWN);
	check(&view, "43210");
	assert_int_equal(view.first, 1);
	top_view_press(&view, TOP_KEY_PAGE_DOWN);
	check(&view, "43210");
	assert_int_equal(view.first, 3);
	top_view_press(&view, TOP_KEY_PAGE_DOWN);
	check(&view, "43210");
	assert_int_equal(view.first, 3);
	top_view_press(&view, TOP_KEY_PAGE_UP);
	top_view_press(&view, TOP_KEY_UP);
	assert_int_equal(view.first, 0);
	top_view_press(&view, TOP_KEY_UP);
	top_view_press(&view, TOP_KEY_END);
	/* A filter leaves fewer rows than a page. */
	press(&view, "/u1\n");
	check(&view, "1");
	assert_int_equal(view.first, 0);
	top_view_press(&view, TOP_KEY_END);
	top_view_press(&view, TOP_KEY_DOWN);
	top_view_press(&view, TOP_KEY_HOME);
	assert_int_equal(view.first, 0);
	view.n_page = 0;
	check(&view, "1");
}

static void test_other_keys(_unused_ void **state)
{
	struct top_view view;

	top_view_init(&view);
	press(&view, "?");
	assert_true(view.has_help);
	press(&view, "p");
	assert_false(view.has_help);
	assert_int_equal(view.sort, TOP_BUSY);
	press(&view, "h");
	assert_int_equal(top_view_press(&view, 'q'), TOP_QUIT);
	assert_int_equal(top_view_press(&view, 'q'), TOP_QUIT);
	assert_int_equal(top_view_press(&view, ' '), TOP_SAMPLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_filter_bytes),
		cmocka_unit_test(test_scroll),
		cmocka_unit_test(test_other_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
