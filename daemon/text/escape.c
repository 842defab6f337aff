/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Foreign text in tables. Any thread.
 *
 * Invariant: a word has no blank, no newline and no terminal escape.
 */

#include "escape.h"

#include <stdio.h>
#include <string.h>

#include "quote.h"

void escape_word(const char *text, char *word, size_t size)
{
	const char *c = *text ? text : "-";
	size_t used = 0;

	while (*c) {
		size_t length = utf8_length(c);
		bool is_plain = length > 1 || (length == 1 && *c > ' ' && *c != 0x7f && *c != '\\');

		if (used + (is_plain ? length : 4) >= size)
			break;
		if (is_plain) {
			memcpy(word + used, c, length);
			used += length;
		} else {
			used += (size_t)snprintf(
				word + used, size - used, "\\x%02x", (unsigned char)*c);
			length = 1;
		}
		c += length;
	}
	word[used] = '\0';
}
