/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DISABLE_H
#define DISABLE_H

/*
 * MPS_DISABLE: a list of words, separated by commas or blanks. Each word switches off
 * one thing that a server or a client does by default. A server and a client know
 * the same words, so that both may inherit one list.
 *
 * Any thread. The variable is read at each call; as with secure_getenv(), no thread may
 * change the environment meanwhile.
 */

#include "base.h"

#define DISABLE_VARIABLE "MPS_DISABLE"

enum disable_word {
	DISABLE_CLIENT,
	DISABLE_DLOPEN,
	DISABLE_HELPERS,
	DISABLE_HOLD,
	DISABLE_PLACE,
	DISABLE_QUIET,
	DISABLE_REGISTERED,
	DISABLE_SPIN,
	DISABLE_TURNS,
	DISABLE_N_WORDS
};

/* All words, themselves a list. */
#define DISABLE_WORDS "client, dlopen, helpers, hold, place, quiet, registered, spin, turns"

/* A line of the log about an unknown word: its length, as an int, and the word. */
#define DISABLE_UNKNOWN                                                                            \
	"The word \"%.*s\" in " DISABLE_VARIABLE                                                   \
	" is unknown and has no effect. The known words: " DISABLE_WORDS

/* Whether the variable contains the word. */
bool disable_has(enum disable_word word);

/* Adds the word to the variable. No other thread may use the environment meanwhile. -errno. */
int disable_add(enum disable_word word);

/*
 * Returns the next unknown word of the variable, not terminated, and advances `*at'
 * behind it; NULL: no further word is unknown. `*at' is NULL at first.
 */
const char *disable_next_unknown(const char **at, int *ret_length);

#endif
