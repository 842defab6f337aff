/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Text in columns: aligned, as CSV, and never cut.
 */

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "rows.h"
#include "daemon/text/table.h"

static const char *const columns[] = {"pid", "maws-ns", "cmd"};

static const struct row {
	const char *name, *format, *cells[6];
	const char *text; /* NULL: there is no such format */
} rows[] = {
	{"empty table", NULL, {NULL}, "PID  MAWS NS  CMD"},
	{"named", "table", {"7", "a", "b"}, "PID  MAWS NS  CMD\n7    a        b"},
	{"a PID is not cut", NULL, {"3165259", "a", "b", "9", "", "d"},
		"PID      MAWS NS  CMD\n3165259  a        b\n9        -        d"},
	{"csv", "csv", {"7", "a", "b"}, "pid,maws-ns,cmd\n7,a,b"},
	{"csv without header", "csv,noheader", {"7", "", "b"}, "7,-,b"},
	{"csv without rows", "csv,noheader", {NULL}, ""},
	{"csv quotes", "csv,noheader", {"7", "a,b", "say \"x\""}, "7,\"a,b\",\"say \"\"x\"\"\""},
	{"no format", "json", {NULL}, NULL},
	{"no format of csv", "csv,header", {NULL}, NULL},
};

static void test_row(void **state)
{
	const struct row *row = *state;
	_cleanup_free_ char *text = NULL;
	struct table table;

	if (!row->text) {
		assert_false(table_init(&table, columns, ARRAY_SIZE(columns), row->format));
		return;
	}
	assert_true(table_init(&table, columns, ARRAY_SIZE(columns), row->format));
	for (size_t i = 0; i < ARRAY_SIZE(row->cells) && row->cells[i]; i++)
		table_add(&table, "%s", row->cells[i]);
	text = table_close(&table);
	assert_string_equal(text, row->text);
}

int main(void)
{
	return rows_run("table", test_row, rows, sizeof(rows[0]), ARRAY_SIZE(rows));
}
