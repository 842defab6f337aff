/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tokens and numbers. Any thread.
 *
 * Invariant: only a text that consists of digits is a number.
 */

#include "tokenize.h"

#include <string.h>

void tokenize_line(struct tokens *tokens, char *line)
{
	char *rest = NULL;

	*tokens = (struct tokens){0};
	for (char *token = strtok_r(line, " ", &rest); token; token = strtok_r(NULL, " ", &rest)) {
		if (tokens->n < TOKENS_MAX)
			tokens->item[tokens->n] = token;
		tokens->n++;
	}
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
