/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON. Any thread.
 *
 * Invariant: the document is valid JSON and valid UTF-8 for any values.
 */

#include "json.h"

#include <stdio.h>
#include <string.h>

#include "quote.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Copies the text, of which `valid' has three times the size; returns the size. */
static size_t copy_valid(char *valid, const char *text)
{
	char *end = valid;
	uint32_t point;

	while (*text) {
		size_t length = utf8_decode(text, &point);

		end = length > 0 ? mempcpy(end, text, length)
				 : mempcpy(end, REPLACEMENT, strlen(REPLACEMENT));
		text += MAX(length, (size_t)1);
	}
	return (size_t)(end - valid);
}

json_t *json_text(const char *text)
{
	char *valid;
	json_t *string;

	if (!text)
		return json_null();
	valid = malloc(strlen(REPLACEMENT) * strlen(text) + 1);
	if (!valid)
		return NULL;
	string = json_stringn_nocheck(valid, copy_valid(valid, text));
	free(valid);
	return string;
}

json_t *json_amount(uint64_t amount)
{
	return json_integer((json_int_t)MIN(amount, (uint64_t)INT64_MAX));
}

/* `r' is negative if a part of the document has no memory. */
static void check(json_t **document, int r)
{
	if (r == 0)
		return;
	json_decref(*document);
	*document = NULL;
}

void json_add(json_t **list, json_t *value)
{
	check(list, json_array_append_new(*list, value));
}

void json_set(json_t **object, const char *name, json_t *value)
{
	check(object, json_object_set_new(*object, name, value));
}

/* How many bytes follow that can be printed as they are. */
static size_t printable_size(const char *text)
{
	size_t size = 0, length;

	while ((length = utf8_length(text + size)) > 0 && text[size] != 0x7f)
		size += length;
	return size;
}

/* Each character that changes how a line is shown has four digits at most. */
static void write_escaped(FILE *file, const char *text)
{
	uint32_t point;

	for (;;) {
		size_t size = printable_size(text);

		fwrite(text, 1, size, file);
		text += size;
		if (!*text)
			return;
		text += utf8_decode(text, &point);
		fprintf(file, "\\u%04x", point);
	}
}

char *json_write(json_t *document)
{
	_cleanup_free_ char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15));
	char *escaped = NULL;
	size_t size;
	FILE *file = text ? open_memstream(&escaped, &size) : NULL;

	json_decref(document);
	if (!file)
		return NULL;
	write_escaped(file, text);
	if (fclose(file) == 0)
		return escaped;
	free(escaped);
	return NULL;
}
