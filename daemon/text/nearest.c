/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Words that begin and end alike are near to each other. Any thread.
 */

#include "nearest.h"

#include <ctype.h>
#include <string.h>

static bool is_same_byte(char one, char other)
{
	return tolower((unsigned char)one) == tolower((unsigned char)other);
}

static size_t common_beginning(const char *one, const char *other)
{
	size_t length = 0;

	while (one[length] && is_same_byte(one[length], other[length]))
		length++;
	return length;
}

/* How many bytes of the longer word lie between what both words begin and end with. */
static size_t word_distance(const char *one, const char *other)
{
	size_t n = strlen(one), m = strlen(other), end = 0;
	size_t begin = common_beginning(one, other);

	while (begin + end < MIN(n, m) && is_same_byte(one[n - 1 - end], other[m - 1 - end]))
		end++;
	return MAX(n, m) - begin - end;
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
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		size_t distance = word_distance(word, words[i]);

		if (is_part(word, words[i]))
			distance = MIN(distance, (size_t)1);
		if (distance < least) {
			least = distance;
			nearest = words[i];
		}
	}
	/* Beyond half of the word the two have little in common. */
	return least <= strlen(word) / 2 ? nearest : NULL;
}
