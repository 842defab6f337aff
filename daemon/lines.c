/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines out of a stream. Any thread.
 *
 * Invariant: `size' is at most LINE_MAX_SIZE, whatever comes in.
 */

#include <string.h>

#include "lines.h"

/* Bytes of the UTF-8 sequence that begins here, 0: it is none. Text ends with NUL. */
static size_t sequence_length(const unsigned char *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
	uint32_t point = *c & (0x7fu >> length);

	if (*c < 0xc0 || *c > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (c[i] & 0x3fu);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	/* C1 controls reach terminals as escapes do. */
	return point < 0xa0 ? 0 : length;
}

void line_clean(char *text)
{
	unsigned char *c = (unsigned char *)text;

	while (*c) {
		size_t length = *c < 0x80 ? 1 : sequence_length(c);

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
