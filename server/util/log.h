/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

#include "base.h"

/* Longest line; the daemon cuts at the same length. */
#define LOG_LINE_MAX 1024

/*
 * Prepares standard error for log lines. A pipe whose reader is stuck or gone must not delay
 * a worker: up to 32 KiB of lines are then kept, and written with their age before the next
 * line that can be written.
 */
void log_init(void);

/* Writes one line; `format' has no newline. Any thread. Keeps errno. */
void log_line(const char *format, ...) _printf_(1, 2);

/*
 * Makes `fd', a pipe of the daemon, the standard error, and writes the kept lines to it.
 * Takes `fd'. 0 or -errno: then nothing has changed.
 */
int log_take(int fd);

#endif
