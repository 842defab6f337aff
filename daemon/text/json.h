/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JSON_H
#define JSON_H

/*
 * JSON by libjansson: values of foreign text and numbers, and the text of a document. Any thread.
 *
 * A document without memory is NULL, and so is all that it is put into: only json_write() has
 * to be checked.
 */

#include <jansson.h>
#include <stdio.h>

#include "base.h"

/* Any bytes: what is not UTF-8 becomes U+FFFD. NULL becomes null. */
json_t *json_text(const char *text);

/* The same, but "" becomes null. */
json_t *json_text_or_null(const char *text);

/* Numbers of a hostile process, too: larger ones than JSON's readers take become INT64_MAX. */
json_t *json_amount(uint64_t amount);

/* The same, but 0 becomes null. */
json_t *json_number_or_null(uint32_t number);

/* A part of thousandths; 0, which is not known, becomes null. */
json_t *json_thousandths(uint32_t thousandths);

/* Put the value at the end of the list, or into the object. Take the value. */
void json_add(json_t **list, json_t *value);
void json_set(json_t **object, const char *name, json_t *value);

/*
 * The document in one line, with numbers of 15 digits, and \uXXXX for what other programs must not
 * print as it is. Takes the document. The caller frees the text; NULL: no memory.
 */
char *json_write(json_t *document);

/*
 * The same for a document with a list of thousands of values, which as a tree would take three
 * times the time: punctuation and names as text, and one value after another.
 */
struct json_stream {
	FILE *file;
	char *text;
	size_t size;
	bool needs_comma, has_failed;
};

void json_stream_put(struct json_stream *stream, const char *text);

/* With a comma between two values. Takes the value. */
void json_stream_add(struct json_stream *stream, json_t *value);

/* The caller frees the text; NULL: no memory. */
char *json_stream_close(struct json_stream *stream);

#endif
