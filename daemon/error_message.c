/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reasons in words. Any thread.
 *
 * Invariant: the text is always terminated.
 */

#include <stdarg.h>
#include <stdio.h>

#include "error_message.h"

int reason_set(struct reason *reason, int r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
	return r;
}
