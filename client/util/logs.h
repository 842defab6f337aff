/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOGS_H
#define LOGS_H

/*
 * The library's errors and warnings as a program gets them: the last ones, and
 * each as it comes. Any thread.
 */

#include "log.h"

/* Notes a line, and tells those who registered for it. */
void logs_add(enum log_level level, const char *text);

/* In a forked child, where another thread of the parent may have had the lock. */
void logs_forked(void);

#endif
