/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_TEXT_H
#define TOP_TEXT_H

/*
 * One line of a terminal, written from left to right. Foreign text cannot disturb it: control
 * characters, characters without a width and bytes that are not UTF-8 become "?". Any thread;
 * uses the locale (LC_CTYPE).
 */

#include "base.h"

/* Wider terminals are used up to here. */
#define TOP_COLUMNS_MAX 512
/* A character has at most 4 bytes and at least one column. */
#define TOP_LINE_SIZE (4 * TOP_COLUMNS_MAX + 1)

struct top_line {
	char text[TOP_LINE_SIZE]; /* in the encoding of the locale */
	size_t size;
	unsigned n_columns; /* that the text occupies */
	unsigned n_columns_max;
};

/* An empty line of at most `n_columns' columns. */
void top_line_init(struct top_line *line, unsigned n_columns);

/* Whether the locale's encoding is UTF-8; else characters that are not ASCII become "?". */
bool top_text_is_utf8(void);

/* Columns that the text would occupy, as far as `n_max'. */
unsigned top_text_columns(const char *text, unsigned n_max);

/*
 * Appends text, at most `n_columns' columns of it and of the line. A text that is cut ends
 * with "+".
 */
void top_line_put(struct top_line *line, const char *text, unsigned n_columns);

/* The same with blanks up to `n_columns', after or before the text. */
void top_line_put_left(struct top_line *line, const char *text, unsigned n_columns);
void top_line_put_right(struct top_line *line, const char *text, unsigned n_columns);

/* Appends formatted text as far as there is room. */
void top_line_printf(struct top_line *line, const char *format, ...) _printf_(2, 3);

#endif
