/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prometheus' text format. Any thread.
 *
 * Invariant: the text is valid, and valid UTF-8, for any values of labels.
 */

#include "exposition.h"

#include <inttypes.h>
#include <string.h>

#include "quote.h"

/* The longest form of a character: UTF-8 or an escape. */
#define CHARACTER_MAX 4

static void labels_put(struct labels *labels, const char *bytes, size_t size)
{
	memcpy(labels->text + labels->size, bytes, size);
	labels->size += size;
	labels->text[labels->size] = '\0';
}

/* Writes the first character of a value, and returns how many bytes it has there. */
static size_t labels_put_character(struct labels *labels, const char *value)
{
	size_t length = utf8_length(value);

	if (*value == '\n')
		labels_put(labels, "\\n", 2);
	else if (*value == '"' || *value == '\\')
		labels_put(labels, (const char[]){'\\', *value}, 2);
	else if (length == 0)
		labels_put(labels, "\xef\xbf\xbd", 3);
	else
		labels_put(labels, value, length);
	return MAX(length, (size_t)1);
}

void labels_add(struct labels *labels, const char *name, const char *value)
{
	size_t length = strlen(name);

	/* The comma, the equals sign, two quotes and the NUL. */
	if (labels->size + length + 5 > LABELS_MAX)
		return;
	if (labels->size > 0)
		labels_put(labels, ",", 1);
	labels_put(labels, name, length);
	labels_put(labels, "=\"", 2);
	while (*value && labels->size + CHARACTER_MAX + 2 <= LABELS_MAX)
		value += labels_put_character(labels, value);
	labels_put(labels, "\"", 1);
}

void labels_add_number(struct labels *labels, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	labels_add(labels, name, text);
}

void exposition_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_series(FILE *out, const char *name, const struct labels *labels)
{
	fputs(name, out);
	if (labels && labels->size > 0)
		fprintf(out, "{%s}", labels->text);
}

void exposition_number(FILE *out, const char *name, const struct labels *labels, uint64_t value)
{
	put_series(out, name, labels);
	fprintf(out, " %" PRIu64 "\n", value);
}

void exposition_ns(FILE *out, const char *name, const struct labels *labels, uint64_t ns)
{
	put_series(out, name, labels);
	fprintf(out, " %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}
