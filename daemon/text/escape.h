/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESCAPE_H
#define ESCAPE_H

#include "base.h"

/*
 * Writes any text as one word: blanks, control characters, backslashes and
 * bytes that are not UTF-8 become \xNN, an empty text "-". Truncated to fit,
 * never within an escape or a character. Any thread.
 */
void escape_word(const char *text, char *word, size_t size);

#endif
