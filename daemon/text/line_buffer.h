/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINE_BUFFER_H
#define LINE_BUFFER_H

/*
 * Splits a stream of bytes into lines of bounded length that are safe to
 * print: control characters become '?', a tab a blank. Any thread.
 */

#include "base.h"

#define LINE_MAX_SIZE 1024 /* bytes of text; the rest becomes another line */

struct line_buffer {
	size_t size;
	char text[LINE_MAX_SIZE + 1];
};

typedef void (*line_buffer_on_line)(void *arg, const char *line);

/* Calls `on_line' for each line that is now complete. Empty lines are skipped. */
void line_buffer_feed(struct line_buffer *buffer, const char *bytes, size_t size,
	line_buffer_on_line on_line, void *arg);

/* The stream has ended: the remaining bytes are a line. */
void line_buffer_end(struct line_buffer *buffer, line_buffer_on_line on_line, void *arg);

/* Makes a string safe to print, in place. */
void line_clean(char *text);

#endif
