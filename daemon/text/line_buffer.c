/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Splits a stream into lines. Any thread.
 *
 * Invariant: `size' is at most LINE_MAX_SIZE for any input.
 */

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

void line_buffer_end(struct line_buffer *buffer, line_buffer_on_line on_line, void *arg)
{
	if (buffer->size > 0 && buffer->text[buffer->size - 1] == '\r')
		buffer->size--;
	if (buffer->size == 0)
		return;
	buffer->text[buffer->size] = '\0';
	buffer->size = 0;
	line_clean(buffer->text);
	on_line(arg, buffer->text);
}

void line_buffer_feed(struct line_buffer *buffer, const char *bytes, size_t size,
	line_buffer_on_line on_line, void *arg)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == '\n') {
			line_buffer_end(buffer, on_line, arg);
			continue;
		}
		if (buffer->size == LINE_MAX_SIZE)
			line_buffer_end(buffer, on_line, arg);
		/* A NUL would truncate the line in the log. */
		buffer->text[buffer->size] = bytes[i];
		if (!bytes[i])
			buffer->text[buffer->size] = '?';
		buffer->size++;
	}
}
