/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows of the table in terminals of any width, and their order.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_column.h"

#define S 1000000000ull

/* In 80 columns. */
#define TITLES "    PID USER     SM%   MEM LAUNCH/s BUSY%   ERR 60 SEC   KERNEL         COMMAND"

static struct top_row row(void)
{
	struct top_row made = {
		.client = {.pid = 26361,
			.group = "training",
			.command = "/usr/bin/train",
			.memory = 3u << 20,
			.n_sms = 33,
			.n_device_sms = 132,
			.slowdown = 1.034,
			.errors = 12},
		.user = "alice",
		.kernel = "void n::multiply_tiles<4>(float*)",
		.has_rates = true,
		.launches = 12345,
		.copies = 3.21,
		.bytes_in = 5 << 20,
		.bytes_out = 0,
		.busy = 0.5,
	};

	top_history_add(&made.history, 61 * S, 120 * S, 0.5);
	return made;
}

static void check(
	const struct top_row *shown, unsigned n_columns, const char *titles, const char *want)
{
	struct top_layout layout;
	struct top_line line;

	top_layout_init(
		&layout, n_columns, TOP_WITH_GRAPH | (shown->client.away > 0 ? TOP_WITH_AWAY : 0));
	top_column_header(&layout, &line);
	assert_string_equal(line.text, titles);
	top_column_row(&layout, shown, 119 * S, &line);
	assert_string_equal(line.text, want);
}

static void test_widths(_unused_ void **state)
{
	struct top_row shown = row();

	check(&shown, 80, TITLES,
		"  26361 alice     25  3.0M    12.3K    50    12 ======== multiply_tiles train");
	check(&shown, 100,
		"    PID USER     GROUP   SM%   MEM LAUNCH/s COPY/s BUSY%   ERR 60 SEC     "
		"KERNEL          COMMAND",
		"  26361 alice    traini+  25  3.0M    12.3K    3.2    50    12 ========== "
		"multiply_tiles  train");
	check(&shown, 190,
		"    PID USER     GROUP           SM%   MEM LAUNCH/s COPY/s  IN/s OUT/s BUSY% "
		"SLOW% "
		"YIELD%   ERR "
		"60 SEC                         "
		"KERNEL                          COMMAND",
		"  26361 alice    training         25  3.0M    12.3K    3.2  5.0M     0    50     "
		"3      - "
		"   12 "
		"============================== "
		"multiply_tiles                  /usr/bin/train");
	check(&shown, 40, "    PID   MEM LAUNCH/s BUSY% COMMAND",
		"  26361  3.0M    12.3K    50 train");
	check(&shown, 8, "COMMAND", "train");
	shown.client.away = 2 << 20;
	check(&shown, 40, "    PID   MEM  AWAY BUSY% COMMAND",
		"  26361  3.0M  2.0M    50 /usr/bin/train");
	shown.client.away = 0;
	check(&shown, 3, "CO+", "tr+");
}

/* Every width is kept, whatever the names are. */
static void test_every_width(_unused_ void **state)
{
	struct top_row shown = row();

	snprintf(shown.user, sizeof(shown.user), "日本日本日本日本");
	snprintf(shown.kernel, sizeof(shown.kernel), "a::\x1b[31m日本日本日本日本日本日本<\n");
	shown.client.group = "\x1b[31m日本\xff\n";
	shown.client.command =
		"日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本";
	shown.client.pid = INT64_MAX;
	shown.client.errors = UINT64_MAX;
	shown.client.memory = shown.client.away = UINT64_MAX;
	shown.launches = shown.copies = shown.bytes_in = shown.bytes_out = 1e300;
	for (unsigned n = 1; n < 600; n++)
		for (unsigned options = 0; options < 4; options++) {
			struct top_layout layout;
			struct top_line line;

			top_layout_init(&layout, n, options);
			top_column_header(&layout, &line);
			assert_true(line.n_columns <= n);
			top_column_row(&layout, &shown, 119 * S, &line);
			assert_true(line.n_columns <= n);
			assert_null(strpbrk(line.text, "\x1b\n\xff"));
		}
}

static void test_unknown(_unused_ void **state)
{
	struct top_row shown = row();

	shown.client.group = NULL;
	shown.client.n_device_sms = 0;
	shown.has_rates = false;
	snprintf(shown.kernel, sizeof(shown.kernel), "-");
	check(&shown, 80, TITLES,
		"  26361 alice      -  3.0M        -     -    12 ======== -              train");
}

static void test_command(_unused_ void **state)
{
	struct top_row shown = row();
	const char *titles = "    PID   MEM LAUNCH/s BUSY% COMMAND";

	shown.client.command = "/folder/";
	check(&shown, 40, titles, "  26361  3.0M    12.3K    50 /folder/");
	shown.client.command = "/a/longer/folder/";
	check(&shown, 40, titles, "  26361  3.0M    12.3K    50 /a/longer/+");
	shown.client.command = "/a/name";
	check(&shown, 40, titles, "  26361  3.0M    12.3K    50 /a/name");
}

static void test_order(_unused_ void **state)
{
	struct top_row rows[2] = {row(), row()};

	rows[1].client.pid++;
	rows[1].client.memory--;
	rows[1].busy = 0.6;
	rows[1].client.group = NULL;
	assert_true(top_column_compare(TOP_PID, &rows[0], &rows[1]) < 0);
	assert_true(top_column_compare(TOP_MEMORY, &rows[0], &rows[1]) < 0);
	assert_true(top_column_compare(TOP_BUSY, &rows[0], &rows[1]) > 0);
	assert_true(top_column_compare(TOP_GROUP, &rows[0], &rows[1]) < 0);
	/* Equal: by PID, then by place. */
	assert_true(top_column_compare(TOP_USER, &rows[1], &rows[0]) > 0);
	rows[1] = rows[0];
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		assert_true(top_column_compare(i, &rows[0], &rows[1]) < 0);
		assert_int_equal(top_column_compare(i, &rows[0], &rows[0]), 0);
	}
}

static void test_keys(_unused_ void **state)
{
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		for (unsigned j = 0; j < i; j++)
			if (top_column_key(i))
				assert_int_not_equal(top_column_key(i), top_column_key(j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_widths),
		cmocka_unit_test(test_every_width),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
