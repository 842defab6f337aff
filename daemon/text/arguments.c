/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arguments of commands of protocol 3. Any thread.
 *
 * Invariant: each key is one that the usage names, and is given once.
 */

#include "arguments.h"

#include <string.h>

enum form {
	FORM_UNKNOWN,
	FORM_FLAG,
	FORM_VALUE,
};

/* How the usage writes the key. */
static enum form form_of(const char *usage, const char *key)
{
	size_t length = strlen(key);

	for (const char *at = usage; length > 0 && (at = strstr(at, "--")); at += 2) {
		if (strncmp(at + 2, key, length) != 0)
			continue;
		if (at[2 + length] == '=')
			return FORM_VALUE;
		if (!at[2 + length] || strchr(" ]|", at[2 + length]))
			return FORM_FLAG;
	}
	return FORM_UNKNOWN;
}

static int check_option(const struct tokens *tokens, const char *key, const char *value,
	const char *usage, struct error_message *error)
{
	enum form form = form_of(usage, key);

	if (form == FORM_UNKNOWN)
		return error_message_set(error, -EINVAL, "Unknown option \"--%.64s\"", key);
	if (form == FORM_FLAG && value)
		return error_message_set(error, -EINVAL, "--%s takes no value", key);
	if (form == FORM_VALUE && (!value || !*value))
		return error_message_set(
			error, -EINVAL, "--%s needs a value: --%s=VALUE", key, key);
	if (arguments_get(tokens, key))
		return error_message_set(error, -EINVAL, "--%s is given twice", key);
	if (tokens->n_options == OPTIONS_MAX)
		return error_message_set(error, -EINVAL, "There are too many options");
	return 0;
}

static int read_option(
	struct tokens *tokens, char *word, const char *usage, struct error_message *error)
{
	char *key = strncmp(word, "--", 2) == 0 ? word + 2 : word;
	char *value = strchr(key, '=');
	int r;

	if (value)
		*value++ = '\0';
	for (char *c = key; *c; c++)
		if (*c == '_')
			*c = '-';
	r = check_option(tokens, key, value, usage, error);
	if (r < 0)
		return r;
	tokens->options[tokens->n_options++] =
		(struct option_token){.key = key, .value = value ? value : ""};
	return 0;
}

int arguments_read(struct tokens *tokens, const char *usage, struct error_message *error)
{
	size_t n = 0;

	for (size_t i = 0; i < tokens->n; i++) {
		char *word = tokens->item[i];
		bool is_option = *word == '-' || strchr(word, '=');
		int r = is_option ? read_option(tokens, word, usage, error) : 0;

		if (r < 0)
			return r;
		if (!is_option)
			tokens->item[n++] = word;
	}
	tokens->n = n;
	return 0;
}

const char *arguments_get(const struct tokens *tokens, const char *key)
{
	for (size_t i = 0; i < tokens->n_options; i++)
		if (strcmp(tokens->options[i].key, key) == 0)
			return tokens->options[i].value;
	return NULL;
}
