/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INI_H
#define INI_H

/*
 * The syntax of the configuration file: sections, entries and comments, a line
 * each.
 *
 *     # a comment
 *     [kind name]
 *     key = value    # a comment
 *
 * A `#' begins a comment at the beginning of a line and after a blank. Any
 * thread.
 */

#include "base.h"

struct ini_handler {
	/* `name' is "" if there is none. False: the section is refused, and its entries skipped. */
	bool (*on_section)(void *arg, unsigned line, const char *kind, const char *name);
	/* The key has at least one byte, and so has the value. */
	void (*on_entry)(void *arg, unsigned line, const char *key, const char *value);
	/* The line is neither, for this reason. The parser continues with the next line. */
	void (*on_error)(void *arg, unsigned line, const char *why);
	void *arg;
};

/* Parses `size' bytes and a NUL after them, in place: the handler gets parts of `text'. */
void ini_parse(char *text, size_t size, const struct ini_handler *handler);

#endif
