/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Distances of words (Levenshtein's, computed row by row). Any thread.
 */

#include "nearest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

static bool is_same_byte(char one, char other)
{
	return tolower((unsigned char)one) == tolower((unsigned char)other);
}

unsigned word_distance(const char *one, const char *other)
{
	size_t n = strlen(one), m = strlen(other);
	/* The distances of one's first i bytes to each beginning of the other word. */
	unsigned row[NEAREST_WORD_MAX + 1];

	if (n > NEAREST_WORD_MAX || m > NEAREST_WORD_MAX)
		return UINT_MAX;
	for (unsigned j = 0; j <= m; j++)
		row[j] = j;
	for (unsigned i = 1; i <= n; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			unsigned replaced = diagonal + !is_same_byte(one[i - 1], other[j - 1]);

			diagonal = row[j];
			row[j] = MIN(replaced, MIN(row[j - 1], row[j]) + 1);
		}
	}
	return row[m];
}

static size_t common_beginning(const char *one, const char *other)
{
	size_t length = 0;

	while (one[length] && is_same_byte(one[length], other[length]))
		length++;
	return length;
}

/* Whether one word is a part of the other, or nearly its beginning: "grace" and "grace_ms". */
static bool is_part(const char *word, const char *other)
{
	if (MIN(strlen(word), strlen(other)) < 3)
		return false;
	return strcasestr(word, other) || strcasestr(other, word) ||
	       common_beginning(word, other) * 4 >= strlen(word) * 3;
}

const char *nearest_word(const char *word, const char *const *words, size_t n)
{
	const char *nearest = NULL;
	unsigned least = UINT_MAX;

	for (size_t i = 0; i < n; i++) {
		unsigned distance = word_distance(word, words[i]);

		if (is_part(word, words[i]))
			distance = MIN(distance, 1);
		if (distance < least) {
			least = distance;
			nearest = words[i];
		}
	}
	/* Beyond half of the word the two have little in common. */
	return least <= strlen(word) / 2 ? nearest : NULL;
}
