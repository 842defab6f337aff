/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

/*
 * The library's own words, to stderr or a file, never stdout:
 * MPS_CLIENT_LOG=error|warn|info|debug[,FILE]. Any thread; a line is one
 * write(). Keeps errno.
 */

#include "base.h"

enum log_level {
	LOG_ERROR = 1,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

_printf_(2, 3) void log_line(enum log_level level, const char *format, ...);

/* Says once for each symbol (a string that stays) that it is not served, and why. */
void log_refused(const char *symbol, const char *why);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
