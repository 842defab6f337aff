/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ERROR_MESSAGE_H
#define ERROR_MESSAGE_H

/*
 * An error message for the person who reads it: what failed, where, and what
 * to do. It goes with a negative errno, which is for the code.
 */

#include "base.h"

struct error_message {
	char text[512];
};

/* Writes the text, truncated if too long, and returns `r', so that a caller can return it. */
int error_message_set(struct error_message *error, int r, const char *format, ...) _printf_(3, 4);

#endif
