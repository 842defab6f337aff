/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JSON_H
#define JSON_H

/*
 * Writes one JSON document. Any thread.
 *
 *   json_open(&json, NULL, '{');
 *   json_number(&json, "pid", 7);
 *   json_close(&json, '}');
 *
 * In an object each value has a name, in a list `name' is NULL. Without memory
 * the document ends up empty: `failed' is set and all later calls do nothing.
 */

#include "base.h"

struct json {
	char *text; /* ends with NUL; NULL while it is empty */
	size_t size, room;
	bool needs_comma;
	bool failed;
};

/* libjansson, which reads JSON for top, has other functions of these names. */
#define json_string json_write_string
#define json_null json_write_null

/* `bracket' is one of { and [, and one of } and ]. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

/* Any bytes: what is not UTF-8 becomes U+FFFD. */
void json_string(struct json *json, const char *name, const char *value);
void json_number(struct json *json, const char *name, int64_t value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);

/* A number with three decimals, from thousandths. */
void json_thousandths(struct json *json, const char *name, uint32_t value);

/* The same for any size. */
void json_decimal(struct json *json, const char *name, uint64_t whole, unsigned thousandths);

void json_fini(struct json *json);

#endif
