/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDINGS_H
#define FINDINGS_H

/*
 * The findings of `mps-run --check': each is one line on standard output that says
 * what was found, and what to do.
 */

#include "base.h"

struct findings {
	unsigned n; /* reasons why the program would not be a client, or may not be one */
};

/* A reason why the program would not be a client; NULL: a line that is no reason. */
_printf_(2, 3) void findings_add(struct findings *findings, const char *format, ...);

#define findings_note(...) findings_add(NULL, __VA_ARGS__)

#endif
