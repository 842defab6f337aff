/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Text in columns. Any thread.
 *
 * Invariant: every row has a cell for each column.
 */

#include "table.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2

bool table_init(
	struct table *table, const char *const *columns, size_t n_columns, const char *format)
{
	assert(n_columns <= TABLE_COLUMNS_MAX);
	*table = (struct table){.columns = columns, .n_columns = n_columns};
	for (size_t i = 0; i < n_columns; i++)
		table->widths[i] = strlen(columns[i]);
	if (!format || strcmp(format, "table") == 0)
		return true;
	table->is_csv = true;
	table->has_no_header = strcmp(format, "csv,noheader") == 0;
	return table->has_no_header || strcmp(format, "csv") == 0;
}

static const char *cell_text(const char *cell)
{
	return *cell ? cell : "-";
}

static void keep_cell(struct table *table, char *cell)
{
	size_t *width = &table->widths[table->n_cells % table->n_columns];

	*width = MAX(*width, strlen(cell_text(cell)));
	table->cells[table->n_cells++] = cell;
}

void table_add(struct table *table, const char *format, ...)
{
	char **cells = reallocarray(table->cells, table->n_cells + 1, sizeof(*cells)), *cell;
	va_list args;
	int n;

	if (cells)
		table->cells = cells;
	va_start(args, format);
	n = cells ? vasprintf(&cell, format, args) : -1;
	va_end(args);
	if (n < 0)
		table->has_failed = true;
	else
		keep_cell(table, cell);
}

const char *table_cell(const struct table *table, size_t column)
{
	return cell_text(table->cells[column]);
}

/* ---- CSV, as RFC 4180 has it */

static void put_csv(FILE *file, const char *text)
{
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, file);
		return;
	}
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', file);
		fputc(*text, file);
	}
	fputc('"', file);
}

static void put_csv_row(const struct table *table, FILE *file, const char *const *cells)
{
	for (size_t i = 0; i < table->n_columns; i++) {
		if (i > 0)
			fputc(',', file);
		put_csv(file, cell_text(cells[i]));
	}
	fputc('\n', file);
}

static void write_csv(const struct table *table, FILE *file)
{
	if (!table->has_no_header)
		put_csv_row(table, file, table->columns);
	for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns)
		put_csv_row(table, file, (const char *const *)table->cells + i);
}

/* ---- aligned */

/* "pipe-directory" is PIPE DIRECTORY. */
static void put_title(const struct table *table, FILE *file, const char *name)
{
	for (; *name; name++)
		fputc(*name == '-' && !table->has_hyphens ? ' ' : toupper((unsigned char)*name),
			file);
}

static void put_line(const struct table *table, FILE *file, const char *const *cells)
{
	for (size_t i = 0; i < table->n_columns; i++) {
		const char *text = cells ? cell_text(cells[i]) : table->columns[i];

		if (cells)
			fputs(text, file);
		else
			put_title(table, file, text);
		if (i + 1 < table->n_columns)
			fprintf(file, "%*s", (int)(table->widths[i] - strlen(text) + GAP), "");
	}
	fputc('\n', file);
}

static void write_aligned(const struct table *table, FILE *file)
{
	put_line(table, file, NULL);
	for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns)
		put_line(table, file, (const char *const *)table->cells + i);
}

/* ---- the text */

static void free_cells(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->n_cells = 0;
}

char *table_close(struct table *table)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = table->has_failed ? NULL : open_memstream(&text, &size);

	if (file && table->is_csv)
		write_csv(table, file);
	else if (file)
		write_aligned(table, file);
	free_cells(table);
	if (!file || fclose(file) != 0) {
		free(text);
		return NULL;
	}
	if (size > 0)
		text[size - 1] = '\0';
	return text;
}
