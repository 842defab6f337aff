/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOGS_H
#define LOGS_H

/*
 * The library's errors and warnings for the program: the last lines, and a callback
 * for each new line. Any thread.
 */

#include "log.h"

/* Keeps a line and calls the registered callbacks. */
void logs_add(enum log_level level, const char *text);

/* For a forked child: another thread of the parent may have held the lock. */
void logs_forked(void);

#endif
