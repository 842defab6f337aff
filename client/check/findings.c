/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints findings. Main thread.
 *
 * Invariant: a line contains foreign text only in quotes (quote.h).
 */

#include "findings.h"

#include <stdarg.h>

static void print_line(const char *format, va_list args)
{
	fputs("mps-run: ", stdout);
	vprintf(format, args);
	putchar('\n');
}

void findings_add(struct findings *findings, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	findings->n++;
}

void findings_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
}
