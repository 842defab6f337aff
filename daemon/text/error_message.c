/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Error messages. Any thread.
 *
 * Invariant: the text is always terminated.
 */

#include "error_message.h"

int error_message_set(struct error_message *error, int r, const char *format, ...)
{

	format_arguments(error->text, format);
	return r;
}
