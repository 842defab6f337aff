/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_H
#define LOG_H

/*
 * The library's log, to stderr or a file, never to stdout:
 * MPS_CLIENT_LOG=error|warn|info|debug[,FILE]. Any thread; each line is one
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

/* Logs once per symbol that the symbol is not supported, and why. The string must stay valid. */
void log_refused(const char *symbol, const char *why);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
