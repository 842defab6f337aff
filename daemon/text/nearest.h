/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEAREST_H
#define NEAREST_H

/* The word that a misspelt word may mean. Any thread. */

#include "base.h"

/* Words of more bytes are nearest to no other. */
#define NEAREST_WORD_MAX 64

/*
 * How many single bytes have to be inserted, removed or replaced to make the
 * one word the other; case does not matter. UINT_MAX: a word is too long.
 */
unsigned word_distance(const char *one, const char *other);

/* The nearest of the words that is near enough to be meant; NULL: there is none. */
const char *nearest_word(const char *word, const char *const *words, size_t n);

#endif
