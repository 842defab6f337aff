/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Quoted text. Any thread.
 *
 * Invariant: the result is valid UTF-8 without control characters and marks of the
 * direction of text, and every quote except the first and the last has a backslash.
 */

#include "quote.h"

#include <stdio.h>
#include <string.h>

/* The end of a text that is too long, and the NUL. */
#define TAIL sizeof("\"...")

size_t utf8_decode(const char *text, uint32_t *ret_point)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *c = (const unsigned char *)text;
	size_t length = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
	uint32_t point = *c & (0x7fu >> length);

	*ret_point = *c;
	if (*c < 0x80)
		return *c ? 1 : 0;
	if (*c < 0xc0 || *c > 0xf4)
		return 0;
	/* The NUL at the end of the text is not a continuation byte. */
	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (c[i] & 0x3fu);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	*ret_point = point;
	return length;
}

/* Characters that change how a terminal or an editor shows the rest of the line. */
static bool changes_the_line(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x80, 0x9f},     /* C1 controls: terminals interpret them like escape sequences */
		{0x61c, 0x61c},   /* marks of the direction of text */
		{0x200e, 0x200f}, /* the same */
		{0x2028, 0x202e}, /* ends of lines and paragraphs; embedded directions */
		{0x2066, 0x2069}, /* isolated directions */
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	return false;
}

size_t utf8_length(const char *text)
{
	uint32_t point;
	size_t length = utf8_decode(text, &point);

	return changes_the_line(point) ? 0 : length;
}

/* Writes one character in quoted form; returns its bytes in the text. */
static size_t escape(const char *text, char piece[8])
{
	size_t length = utf8_length(text);
	unsigned char c = (unsigned char)*text;

	if (c == '"' || c == '\\')
		snprintf(piece, 8, "\\%c", c);
	else if (c == '\n')
		snprintf(piece, 8, "\\n");
	else if (c == '\t')
		snprintf(piece, 8, "\\t");
	else if (length == 0 || c < ' ' || c == 0x7f)
		snprintf(piece, 8, "\\x%02x", c);
	else
		snprintf(piece, 8, "%.*s", (int)length, text);
	return MAX(length, (size_t)1);
}

const char *quote(struct quoted *quoted, const char *text)
{
	size_t size = 1;
	char piece[8];

	quoted->text[0] = '"';
	while (*text) {
		size_t taken = escape(text, piece);
		size_t length = strlen(piece);

		if (size + length + TAIL > sizeof(quoted->text))
			break;
		memcpy(quoted->text + size, piece, length);
		size += length;
		text += taken;
	}
	snprintf(quoted->text + size, sizeof(quoted->text) - size, *text ? "\"..." : "\"");
	return quoted->text;
}
