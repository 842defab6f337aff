/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines out of a stream. Any thread.
 *
 * Invariant: `size' is at most LINE_MAX_SIZE, whatever comes in.
 */

#include <string.h>

#include "line_buffer.h"
#include "quote.h"

void line_clean(char *text)
{
	unsigned char *c = (unsigned char *)text;

	while (*c) {
		size_t length = utf8_length((const char *)c);

		if (*c == '\t')
			*c = ' ';
		else if (*c < ' ' || *c == 0x7f || length == 0)
			*c = '?';
		c += MAX(length, (size_t)1);
	}
}

void lines_end(struct lines *lines, lines_on_line on_line, void *arg)
{
	if (lines->size > 0 && lines->text[lines->size - 1] == '\r')
		lines->size--;
	if (lines->size == 0)
		return;
	lines->text[lines->size] = '\0';
	lines->size = 0;
	line_clean(lines->text);
	on_line(arg, lines->text);
}

void lines_feed(
	struct lines *lines, const char *bytes, size_t size, lines_on_line on_line, void *arg)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == '\n') {
			lines_end(lines, on_line, arg);
			continue;
		}
		if (lines->size == LINE_MAX_SIZE)
			lines_end(lines, on_line, arg);
		/* A NUL would cut the line short in the log. */
		lines->text[lines->size] = bytes[i];
		if (!bytes[i])
			lines->text[lines->size] = '?';
		lines->size++;
	}
}
