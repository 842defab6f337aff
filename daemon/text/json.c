/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON. Any thread.
 *
 * Invariant: the document is valid JSON and valid UTF-8 for any values.
 */

#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quote.h"

static void json_put(struct json *json, const char *bytes, size_t size)
{
	if (json->failed)
		return;
	if (json->size + size + 1 > json->room) {
		size_t room = MAX(2 * json->room, json->size + size + 1024);
		char *text = realloc(json->text, room);

		if (!text) {
			json_fini(json);
			json->failed = true;
			return;
		}
		json->text = text;
		json->room = room;
	}
	memcpy(json->text + json->size, bytes, size);
	json->size += size;
	json->text[json->size] = '\0';
}

static void json_put_text(struct json *json, const char *text)
{
	json_put(json, text, strlen(text));
}

static void json_put_char(struct json *json, unsigned char c)
{
	char escape[8];

	if (c == '"' || c == '\\')
		json_put(json, "\\", 1);
	if (c < ' ' || c == 0x7f) {
		snprintf(escape, sizeof(escape), "\\u%04x", c);
		json_put_text(json, escape);
	} else {
		json_put(json, (const char *)&c, 1);
	}
}

/* A character that other programs must not print as it is, or a byte that is none; its length. */
static size_t json_put_escaped(struct json *json, const char *c)
{
	uint32_t point;
	size_t length = utf8_decode(c, &point);
	char escape[8] = "\\ufffd";

	/* Each character that changes the line has four digits at most. */
	if (length > 0)
		snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)(point & 0xffff));
	json_put_text(json, escape);
	return MAX(length, (size_t)1);
}

static void json_put_string(struct json *json, const char *value)
{
	const char *c = value;

	json_put(json, "\"", 1);
	while (*c) {
		size_t length = utf8_length(c);

		if (length == 1)
			json_put_char(json, (unsigned char)*c);
		else if (length > 1)
			json_put(json, c, length);
		else
			length = json_put_escaped(json, c);
		c += length;
	}
	json_put(json, "\"", 1);
}

/* Writes the comma and the name before a value. */
static void json_begin_value(struct json *json, const char *name)
{
	if (json->needs_comma)
		json_put(json, ",", 1);
	json->needs_comma = true;
	if (!name)
		return;
	json_put_string(json, name);
	json_put(json, ":", 1);
}

void json_open(struct json *json, const char *name, char bracket)
{
	json_begin_value(json, name);
	json_put(json, &bracket, 1);
	json->needs_comma = false;
}

void json_close(struct json *json, char bracket)
{
	json_put(json, &bracket, 1);
	json->needs_comma = true;
}

void json_string(struct json *json, const char *name, const char *value)
{
	json_begin_value(json, name);
	json_put_string(json, value);
}

void json_number(struct json *json, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	json_begin_value(json, name);
	json_put_text(json, text);
}

void json_thousandths(struct json *json, const char *name, uint32_t value)
{
	json_decimal(json, name, value / 1000, value % 1000);
}

void json_decimal(struct json *json, const char *name, uint64_t whole, unsigned thousandths)
{
	char text[40];

	snprintf(text, sizeof(text), "%" PRIu64 ".%03u", whole, thousandths % 1000);
	json_begin_value(json, name);
	json_put_text(json, text);
}

void json_bool(struct json *json, const char *name, bool value)
{
	json_begin_value(json, name);
	json_put_text(json, value ? "true" : "false");
}

void json_null(struct json *json, const char *name)
{
	json_begin_value(json, name);
	json_put_text(json, "null");
}

void json_fini(struct json *json)
{
	free(json->text);
	*json = (struct json){0};
}
