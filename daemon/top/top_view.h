/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

/* What a user has chosen by keys, and the rows that are shown because of that. Any thread. */

#include "top_column.h"

#define TOP_FILTER_MAX 64

/* Keys without a character; all others are bytes. */
enum top_key {
	TOP_KEY_LEFT = 256,
	TOP_KEY_RIGHT,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_BACKSPACE,
};

struct top_view {
	enum top_column sort;
	bool is_reversed;
	char filter[TOP_FILTER_MAX]; /* "": all rows */
	bool is_typing;              /* the keys are text of the filter */
	bool has_help;
	size_t first;  /* the first row that is shown */
	size_t n_page; /* how many rows the terminal shows; the screen sets it */
};

void top_view_init(struct top_view *view);

enum top_view_action {
	TOP_REDRAW,
	TOP_SAMPLE, /* get a sample now */
	TOP_QUIT,
};

/* A key has been pressed. */
enum top_view_action top_view_press(struct top_view *view, int key);

/* Whether the row's user, group, kernel, command or PID contains the filter, in any case of
 * letters. */
bool top_view_shows(const struct top_view *view, const struct top_row *row);

/*
 * Fills `rows', which has room for all of the table's rows, with the shown ones in order.
 * Returns their number, and moves `first' so that the page is full if there are enough.
 */
size_t top_view_rows(
	struct top_view *view, const struct top_table *table, const struct top_row **rows);

#endif
