/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tokens. Any thread.
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
