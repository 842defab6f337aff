/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORDS_H
#define WORDS_H

/*
 * Text that people write, taken apart. Any thread.
 */

#include "base.h"

/* A group may have a limit for each of many GPUs, of three words each. */
#define WORDS_MAX 256

struct words {
	size_t n;              /* more than WORDS_MAX: too many, the rest is not kept */
	char *word[WORDS_MAX]; /* within the line */
};

/* Cuts a line at its blanks, in place. */
void words_split(struct words *words, char *line);

/* A decimal number of at most `max', with nothing before or after it. 0 or -EINVAL. */
int parse_number(const char *text, uint64_t max, uint64_t *ret_number);

#endif
