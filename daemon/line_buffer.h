/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINES_H
#define LINES_H

/*
 * Turns a stream of bytes into lines of bounded length that are safe to print:
 * control characters become '?', a tab a blank. Any thread.
 */

#include "base.h"

#define LINE_MAX_SIZE 1024 /* bytes of text; what is longer goes on as another line */

struct lines {
	size_t size;
	char text[LINE_MAX_SIZE + 1];
};

typedef void (*lines_on_line)(void *arg, const char *line);

/* Calls `on_line' for each line that is now whole. Empty lines are left out. */
void lines_feed(
	struct lines *lines, const char *bytes, size_t size, lines_on_line on_line, void *arg);

/* The stream has ended: what is left is a line. */
void lines_end(struct lines *lines, lines_on_line on_line, void *arg);

/* Makes a string safe to print, in place. */
void line_clean(char *text);

#endif
