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

json_t *json_text_or_null(const char *text)
{
	return json_text(text[0] ? text : NULL);
}

json_t *json_amount(uint64_t amount)
{
	return json_integer((json_int_t)MIN(amount, (uint64_t)INT64_MAX));
}

json_t *json_number_or_null(uint32_t number)
{
	return number > 0 ? json_integer(number) : json_null();
}

json_t *json_thousandths(uint32_t thousandths)
{
	return thousandths > 0 ? json_real(thousandths / 1000.0) : json_null();
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

/* How many bytes follow that can be printed as they are; nearly all are ASCII. */
static size_t printable_size(const char *text)
{
	size_t size = 0, length;

	do {
		while (text[size] >= ' ' && text[size] < 0x7f)
			size++;
		length = text[size] == 0x7f ? 0 : utf8_length(text + size);
		size += length;
	} while (length > 0);
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

void json_stream_put(struct json_stream *stream, const char *text)
{
	if (!stream->file)
		stream->file = open_memstream(&stream->text, &stream->size);
	stream->has_failed |= !stream->file || fputs(text, stream->file) < 0;
	stream->needs_comma = false;
}

void json_stream_add(struct json_stream *stream, json_t *value)
{
	_cleanup_free_ char *text =
		json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY);

	json_decref(value);
	json_stream_put(stream, stream->needs_comma ? "," : "");
	stream->needs_comma = true;
	stream->has_failed |= !text;
	if (!stream->has_failed)
		write_escaped(stream->file, text);
}

char *json_stream_close(struct json_stream *stream)
{
	if (stream->file)
		stream->has_failed |= fclose(stream->file) != 0;
	if (!stream->has_failed)
		return stream->text;
	free(stream->text);
	return NULL;
}

char *json_write(json_t *document)
{
	struct json_stream stream = {0};

	json_stream_add(&stream, document);
	return json_stream_close(&stream);
}
