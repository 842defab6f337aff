/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKENIZE_H
#define TOKENIZE_H

/*
 * Splits command lines. Any thread.
 */

#include "base.h"
#include "limit_text.h" /* the number in a token */

/* A group may have a limit for each of many GPUs, of three tokens each. */
#define TOKENS_MAX 256
#define OPTIONS_MAX 8

struct tokens {
	size_t n;               /* more than TOKENS_MAX: the rest is not stored */
	char *item[TOKENS_MAX]; /* within the line */
	size_t n_options;       /* of protocol 3: see arguments.h */
	struct option_token {
		const char *key, *value;
	} options[OPTIONS_MAX];
};

/* Splits a line at its blanks, in place. */
void tokenize_line(struct tokens *tokens, char *line);

#endif
