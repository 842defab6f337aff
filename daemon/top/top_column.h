/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_COLUMN_H
#define TOP_COLUMN_H

/* The columns of the table: which of them fit, how a row looks, which row comes first. Any thread.
 */

#include "top_table.h"
#include "top_text.h"

enum top_column {
	TOP_PID,
	TOP_USER,
	TOP_GROUP,
	TOP_SMS,
	TOP_MEMORY,
	TOP_AWAY,
	TOP_LAUNCHES,
	TOP_COPIES,
	TOP_IN,
	TOP_OUT,
	TOP_BUSY,
	TOP_SLOWDOWN,
	TOP_YIELDED,
	TOP_ERRORS,
	TOP_GRAPH,
	TOP_KERNEL,
	TOP_COMMAND,
	TOP_COLUMNS,
};

/* The width of each column; 0: it is not shown. */
struct top_layout {
	unsigned widths[TOP_COLUMNS];
	unsigned n_columns; /* of the terminal */
};

/* Columns that are not always shown. */
#define TOP_WITH_GRAPH 1u
#define TOP_WITH_AWAY 2u /* memory of some client is away from its GPU */

/* Chooses the columns that fit into so many columns of a terminal. */
void top_layout_init(struct top_layout *layout, unsigned n_columns, unsigned options);

/* Where the column begins. */
unsigned top_layout_offset(const struct top_layout *layout, enum top_column column);

void top_column_header(const struct top_layout *layout, struct top_line *line);
void top_column_row(const struct top_layout *layout, const struct top_row *row, uint64_t now_ns,
	struct top_line *line);

const char *top_column_title(enum top_column column);

/* The key that sorts by the column; 0: no key does. */
char top_column_key(enum top_column column);

/*
 * Below 0: row `a' comes before `b'. Amounts begin with the largest, names and PIDs with the
 * smallest; rows that are equal are ordered by the clients' names.
 */
int top_column_compare(enum top_column column, const struct top_row *a, const struct top_row *b);

#endif
