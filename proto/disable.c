/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The words of MPS_DISABLE. Any thread.
 *
 * Invariant: keeps no state, so a word that is added to the variable has an effect
 * at the next call.
 */

#include "disable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS ", \t"

static const char *const names[DISABLE_N_WORDS] = {
	[DISABLE_CLIENT] = "client",
	[DISABLE_DLOPEN] = "dlopen",
	[DISABLE_HELPERS] = "helpers",
	[DISABLE_HOLD] = "hold",
	[DISABLE_PLACE] = "place",
	[DISABLE_QUIET] = "quiet",
	[DISABLE_REGISTERED] = "registered",
	[DISABLE_SPIN] = "spin",
	[DISABLE_TURNS] = "turns",
};

static const char *list_read(void)
{
	const char *list = secure_getenv(DISABLE_VARIABLE);

	return list ? list : "";
}

/* Returns the word at `*list', and advances `*list' behind it; NULL: the list's end. */
static const char *take_word(const char **list, size_t *ret_length)
{
	const char *word = *list + strspn(*list, SEPARATORS);

	*ret_length = strcspn(word, SEPARATORS);
	*list = word + *ret_length;
	return *ret_length ? word : NULL;
}

static bool is_name(const char *word, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(word, name, length) == 0;
}

static bool is_known(const char *word, size_t length)
{
	for (size_t i = 0; i < DISABLE_N_WORDS; i++) {
		if (is_name(word, length, names[i]))
			return true;
	}
	return false;
}

bool disable_has(enum disable_word wanted)
{
	const char *list = list_read(), *word;
	size_t length;

	while ((word = take_word(&list, &length))) {
		if (is_name(word, length, names[wanted]))
			return true;
	}
	return false;
}

int disable_add(enum disable_word word)
{
	_cleanup_free_ char *list = NULL;

	if (asprintf(&list, "%s,%s", list_read(), names[word]) < 0) {
		list = NULL;
		return -ENOMEM;
	}
	return setenv(DISABLE_VARIABLE, list, 1) < 0 ? -errno : 0;
}

const char *disable_next_unknown(const char **at, int *ret_length)
{
	const char *list = *at ? *at : list_read(), *word;
	size_t length;

	do
		word = take_word(&list, &length);
	while (word && is_known(word, length));
	*at = list;
	if (word)
		*ret_length = (int)length;
	return word;
}
