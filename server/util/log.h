/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

#include "base.h"

/* Longest line; the daemon cuts at the same length. */
#define LOG_LINE_MAX 1024

/*
 * Makes standard error the place for lines. A pipe whose reader is stuck or gone
 * must not hold up a worker: lines that find it so are kept, 32 KiB of them, and
 * written before the next that can be, with their age.
 */
void log_init(void);

/* One line, without its newline. Any thread; errno is kept. */
void log_line(const char *format, ...) _printf_(1, 2);

/*
 * Makes `fd', a pipe of the daemon's, the standard error, and writes the lines
 * that were kept into it. Takes `fd'. 0 or -errno: then all is as it was.
 */
int log_take(int fd);

#endif
