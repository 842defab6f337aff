/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A line of a terminal. Any thread.
 *
 * Invariant: a line has printable characters only, and never more columns than it may have.
 */

#include "top_text.h"

#include <langinfo.h>
#include <stdarg.h>
#include <string.h>
#include <wchar.h>

#include "quote.h"

/* The next character of foreign text, made harmless. */
struct cell {
	const char *bytes;
	size_t size;
	unsigned width;
	size_t n_taken; /* bytes of the text; 0: its end */
};

void top_line_init(struct top_line *line, unsigned n_columns)
{
	line->text[0] = '\0';
	line->size = 0;
	line->n_columns = 0;
	line->n_columns_max = MIN(n_columns, TOP_COLUMNS_MAX);
}

bool top_text_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* The columns of a character of several bytes; 0: it cannot be shown. */
static unsigned wide_columns(const char *text, size_t length)
{
	mbstate_t state = {0};
	wchar_t c;
	int width;

	if (!top_text_is_utf8() || mbrtowc(&c, text, length, &state) != length)
		return 0;
	width = wcwidth(c);
	return width > 0 ? (unsigned)width : 0;
}

static struct cell next_cell(const char *text)
{
	size_t length = utf8_length(text);
	struct cell cell = {.bytes = "?", .size = 1, .width = 1, .n_taken = MAX(length, (size_t)1)};
	unsigned width = 0;

	if (*text == '\0')
		return (struct cell){0};
	if (length == 1)
		width = *text >= ' ' && *text != 0x7f;
	else if (length > 1)
		width = wide_columns(text, length);
	if (width > 0) {
		cell.bytes = text;
		cell.size = length;
		cell.width = width;
	}
	return cell;
}

unsigned top_text_columns(const char *text, unsigned n_max)
{
	unsigned n = 0;

	for (struct cell cell = next_cell(text); cell.n_taken > 0; cell = next_cell(text)) {
		if (n + cell.width > n_max)
			return n_max;
		n += cell.width;
		text += cell.n_taken;
	}
	return n;
}

static void put_bytes(struct top_line *line, const char *bytes, size_t size, unsigned width)
{
	memcpy(line->text + line->size, bytes, size);
	line->size += size;
	line->text[line->size] = '\0';
	line->n_columns += width;
}

static unsigned columns_left(const struct top_line *line)
{
	return line->n_columns_max - line->n_columns;
}

/* Whether the text has more columns than that. */
static bool is_wider(const char *text, unsigned n_columns)
{
	return top_text_columns(text, n_columns + 1) > n_columns;
}

void top_line_put(struct top_line *line, const char *text, unsigned n_columns)
{
	unsigned left = MIN(n_columns, columns_left(line));
	bool is_cut = left > 0 && is_wider(text, left);

	left -= is_cut;
	for (struct cell cell = next_cell(text); cell.n_taken > 0 && cell.width <= left;
		cell = next_cell(text)) {
		put_bytes(line, cell.bytes, cell.size, cell.width);
		left -= cell.width;
		text += cell.n_taken;
	}
	if (is_cut)
		put_bytes(line, "+", 1, 1);
}

static void put_blanks(struct top_line *line, unsigned n)
{
	for (n = MIN(n, columns_left(line)); n > 0; n--)
		put_bytes(line, " ", 1, 1);
}

void top_line_put_left(struct top_line *line, const char *text, unsigned n_columns)
{
	unsigned end = line->n_columns + n_columns;

	top_line_put(line, text, n_columns);
	put_blanks(line, end - line->n_columns);
}

void top_line_put_right(struct top_line *line, const char *text, unsigned n_columns)
{
	put_blanks(line, n_columns - top_text_columns(text, n_columns));
	top_line_put(line, text, n_columns);
}

void top_line_printf(struct top_line *line, const char *format, ...)
{
	char text[TOP_LINE_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	top_line_put(line, text, columns_left(line));
}
