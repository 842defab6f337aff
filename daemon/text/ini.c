/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The parser of the configuration file. Any thread.
 *
 * Invariant: every line is a section, an entry, an error, blank, or within a
 * section that was refused; no two of them.
 */

#include "ini.h"

#include <string.h>

struct ini {
	const struct ini_handler *handler;
	unsigned line;
	bool has_section, is_skipping;
};

static bool is_blank(char byte)
{
	return byte == ' ' || byte == '\t' || byte == '\r';
}

static char *skip_blanks(char *text)
{
	while (is_blank(*text))
		text++;
	return text;
}

static void strip_end(char *text)
{
	size_t length = strlen(text);

	while (length > 0 && is_blank(text[length - 1]))
		text[--length] = '\0';
}

static void strip_comment(char *text)
{
	for (char *at = text; *at; at++)
		if (*at == '#' && (at == text || is_blank(at[-1]))) {
			*at = '\0';
			return;
		}
}

/* Whether the line has bytes that no text has; a NUL would hide the rest of the line. */
static bool has_control_bytes(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (((unsigned char)line[i] < ' ' && !is_blank(line[i])) || line[i] == 0x7f)
			return true;
	return false;
}

static void ini_fail(const struct ini *ini, const char *why)
{
	ini->handler->on_error(ini->handler->arg, ini->line, why);
}

/* "[kind name]", from the bracket on. */
static void ini_parse_section(struct ini *ini, char *text)
{
	char *end = strchr(text, ']'), *kind, *name;

	ini->has_section = ini->is_skipping = true;
	if (!end || end[1]) {
		ini_fail(
			ini, end ? "text follows the ] of a section: remove it"
				 : "a section has no ] at its end: write [daemon] or [group NAME]");
		return;
	}
	*end = '\0';
	kind = skip_blanks(text + 1);
	strip_end(kind);
	name = kind + strcspn(kind, " \t\r");
	if (*name) {
		*name = '\0';
		name = skip_blanks(name + 1);
	}
	ini->is_skipping = !ini->handler->on_section(ini->handler->arg, ini->line, kind, name);
}

/* "key = value" */
static void ini_parse_entry(struct ini *ini, char *text)
{
	char *equals = strchr(text, '='), *value;

	if (!ini->has_section) {
		ini_fail(ini, "the line belongs to no section: write [daemon], or another section, "
			      "before it");
		return;
	}
	if (!equals || equals == text) {
		ini_fail(
			ini, "the line is neither \"key = value\" nor a [section] nor a # comment");
		return;
	}
	*equals = '\0';
	value = skip_blanks(equals + 1);
	strip_end(text);
	if (*value)
		ini->handler->on_entry(ini->handler->arg, ini->line, text, value);
	else
		ini_fail(
			ini, "the key has no value: write one, or remove the line for the default");
}

static void ini_parse_line(struct ini *ini, char *line, size_t length)
{
	char *text;

	if (has_control_bytes(line, length)) {
		ini_fail(ini, "the line has control characters: the file must be plain text");
		return;
	}
	strip_comment(line);
	strip_end(line);
	text = skip_blanks(line);
	if (*text == '[')
		ini_parse_section(ini, text);
	else if (*text && !ini->is_skipping)
		ini_parse_entry(ini, text);
}

void ini_parse(char *text, size_t size, const struct ini_handler *handler)
{
	struct ini ini = {.handler = handler};
	char *end = text + size;

	while (text < end) {
		char *newline = memchr(text, '\n', (size_t)(end - text));
		char *line_end = newline ? newline : end;

		*line_end = '\0';
		ini.line++;
		ini_parse_line(&ini, text, (size_t)(line_end - text));
		text = line_end + 1;
	}
}
