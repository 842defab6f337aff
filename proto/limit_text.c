/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits in the syntax of users. Any thread; uses only its arguments. The same
 * text means the same for the daemon's commands and for clients.
 */

#include "limit_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frame.h"

#define THOUSANDTHS 1000u

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the digits at *text and advances it. Counts no further than `max' + 1. */
static uint64_t take_number(const char **text, uint64_t max)
{
	uint64_t n = 0;

	for (; is_digit(**text); ++*text) {
		uint64_t digit = (uint64_t)(**text - '0');

		n = n > (max - MIN(max, digit)) / 10 ? max + 1 : 10 * n + digit;
	}
	return n;
}

/* Reads the decimals at *text, in thousandths. */
static uint32_t take_decimals(const char **text)
{
	uint32_t n = 0;

	for (uint32_t weight = THOUSANDTHS / 10; is_digit(**text); weight /= 10, ++*text)
		n += weight * (uint32_t)(**text - '0');
	return n;
}

int parse_switch(const char *text, bool *ret_is_on)
{
	bool is_on = strcmp(text, "yes") == 0 || strcmp(text, "1") == 0;

	if (!is_on && strcmp(text, "no") != 0 && strcmp(text, "0") != 0)
		return -EINVAL;
	*ret_is_on = is_on;
	return 0;
}

int parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		unsigned digit = (unsigned)(*text - '0');

		if (digit > 9 || digit > max || number > (max - digit) / 10)
			return -EINVAL;
		number = number * 10 + digit;
	}
	*ret_number = number;
	return 0;
}

int parse_percentage(const char *text, uint32_t *ret_thousandths)
{
	uint64_t n;

	if (!is_digit(text[0]) && !(text[0] == '.' && is_digit(text[1])))
		return -EINVAL;
	n = THOUSANDTHS * take_number(&text, ACTIVE_THREADS_ALL / THOUSANDTHS);
	if (*text == '.') {
		text++;
		n += take_decimals(&text);
	}
	if (*text || n == 0 || n > ACTIVE_THREADS_ALL)
		return -EINVAL;
	*ret_thousandths = (uint32_t)n;
	return 0;
}

uint32_t share_groups(uint32_t thousandths, uint32_t n_sms, uint32_t group, uint32_t n_groups)
{
	uint64_t n;

	if (thousandths >= ACTIVE_THREADS_ALL || group == 0 || n_groups == 0)
		return 0;
	n = (uint64_t)thousandths * n_sms / ACTIVE_THREADS_ALL / group;
	return (uint32_t)MIN(MAX(n, 1u), n_groups);
}

static const struct unit {
	char letter;
	uint64_t bytes;
} units[] = {
	{'G', (uint64_t)1 << 30},
	{'M', (uint64_t)1 << 20},
	{'K', (uint64_t)1 << 10},
};

/* Ignores case in every locale. */
static bool is_letter(char c, char letter)
{
	return c == letter || c == (char)(letter | 0x20);
}

/* "M" and "MB" are the same. */
static const struct unit *find_unit(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (is_letter(text[0], units[i].letter))
			return !text[1] || (is_letter(text[1], 'B') && !text[2]) ? &units[i] : NULL;
	}
	return NULL;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	const struct unit *unit;
	uint64_t n;

	if (!is_digit(*text))
		return -EINVAL;
	n = take_number(&text, SIZE_LIMIT_MAX);
	text += strspn(text, " \t");
	unit = find_unit(text);
	if (!unit || n == 0 || n > SIZE_LIMIT_MAX / unit->bytes)
		return -EINVAL;
	*ret_bytes = n * unit->bytes;
	return 0;
}

void format_size(uint64_t bytes, char *text, size_t size)
{
	for (size_t i = 0; bytes && i < ARRAY_SIZE(units); i++) {
		if (bytes % units[i].bytes == 0) {
			snprintf(text, size, "%" PRIu64 "%c", bytes / units[i].bytes,
				units[i].letter);
			return;
		}
	}
	snprintf(text, size, "%" PRIu64 "B", bytes);
}
