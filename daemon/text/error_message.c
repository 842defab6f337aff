/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Error messages. Any thread.
 *
 * Invariant: the text is always terminated.
 */

#include "error_message.h"

#include <stdarg.h>
#include <stdio.h>

int error_message_set(struct error_message *error, int r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return r;
}
