/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TABLE_H
#define TABLE_H

/*
 * Text in columns: aligned, or as CSV. Nothing is cut. Any thread.
 *
 * A cell is foreign text: the caller has removed what moves a terminal's cursor.
 */

#include "base.h"

#define TABLE_COLUMNS_MAX 16

#define TABLE_FORMATS "table, csv or csv,noheader"

struct table {
	const char *const *columns; /* their names, as CSV has them */
	size_t n_columns, widths[TABLE_COLUMNS_MAX];
	bool is_csv, has_no_header;
	bool has_hyphens; /* in the titles of the aligned form, too */
	bool has_failed;  /* no memory */
	char **cells;     /* row by row */
	size_t n_cells;
};

/* Chooses the form by its name, NULL: the aligned one. False: there is no such form. */
bool table_init(
	struct table *table, const char *const *columns, size_t n_columns, const char *format);

/* The next cell: of the present row, or the first one of the next row. "" becomes "-". */
void table_add(struct table *table, const char *format, ...) _printf_(2, 3);

/* A cell of the first row, which has been added. */
const char *table_cell(const struct table *table, size_t column);

/*
 * All lines, without the last newline; frees the cells. The caller frees the text; NULL: no memory.
 * "": there is no line.
 */
char *table_close(struct table *table);

#endif
