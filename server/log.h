/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

#include "base.h"

/* Longest line; the daemon cuts at the same length. */
#define LOG_LINE_MAX 1024

/*
 * Makes standard error the place for lines. A pipe whose reader is stuck must
 * not hold up a worker: lines that find it full are dropped.
 */
void log_init(void);

/* One line, without its newline. Any thread; errno is kept. */
void log_line(const char *format, ...) _printf_(1, 2);

/*
 * Moves standard error to a new pipe. The caller owns the reading
 * end, which a new daemon gets. 0 or -errno: then all is as it was.
 */
int log_move(int *ret_read_fd);

#endif
