/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints findings. Main thread.
 *
 * Invariant: a line contains foreign text only in quotes (quote.h).
 */

#include "findings.h"

#include <stdarg.h>

void findings_add(struct findings *findings, const char *format, ...)
{
	va_list args;

	fputs("mps-run: ", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	if (findings)
		findings->n++;
}
