/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKENIZE_H
#define TOKENIZE_H

/*
 * Splits command lines and parses numbers. Any thread.
 */

#include "base.h"

/* A group may have a limit for each of many GPUs, of three tokens each. */
#define TOKENS_MAX 256

struct tokens {
	size_t n;               /* more than TOKENS_MAX: the rest is not stored */
	char *item[TOKENS_MAX]; /* within the line */
};

/* Splits a line at its blanks, in place. */
void tokenize_line(struct tokens *tokens, char *line);

/* Parses a decimal number of at most `max', without anything before or after it. 0 or -EINVAL. */
int parse_number(const char *text, uint64_t max, uint64_t *ret_number);

#endif
