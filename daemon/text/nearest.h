/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEAREST_H
#define NEAREST_H

/* The word that a misspelt word may mean. Any thread. */

#include "base.h"

/* The nearest of the words that is near enough to be meant; NULL: there is none. */
const char *nearest_word(const char *word, const char *const *words, size_t n);

#endif
