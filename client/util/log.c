/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Log lines of the client library. Any thread of the application.
 *
 * Invariant: a process reads the variable and opens the file once, at its first
 * line. No lock is held that a forked child could find locked for long (logs.h).
 */

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "logs.h"

#define LINE_BYTES 2560
#define REFUSED_MAX 1024

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* The low byte is the level, 0 before the first line; the other bytes are the descriptor. */
static _Atomic uint64_t log_state;

static enum log_level level_parse(const char *text, size_t length)
{
	for (enum log_level level = LOG_ERROR; level <= LOG_DEBUG; level++)
		if (strlen(level_names[level]) == length &&
			!strncmp(level_names[level], text, length))
			return level;
	return LOG_WARN;
}

static uint64_t log_open(void)
{
	const char *wanted = secure_getenv("MPS_CLIENT_LOG");
	enum log_level level = LOG_WARN;
	uint64_t state, before = 0;
	int fd = STDERR_FILENO;

	if (wanted) {
		size_t length = strcspn(wanted, ",");

		level = level_parse(wanted, length);
		if (wanted[length] == ',')
			fd = open(wanted + length + 1,
				O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
		if (fd < 0)
			fd = STDERR_FILENO;
	}
	state = (uint64_t)fd << 8 | level;
	if (atomic_compare_exchange_strong_explicit(
		    &log_state, &before, state, memory_order_acq_rel, memory_order_acquire))
		return state;
	/* Another thread has opened its file first: use that file. */
	if (fd != STDERR_FILENO)
		close(fd);
	return before;
}

static void line_write(int fd, enum log_level level, const char *text)
{
	char line[LINE_BYTES];
	int n = snprintf(line, sizeof(line), "mps-client[%d]: %s: %s\n", (int)getpid(),
		level_names[level], text);
	size_t size = MIN((size_t)n, sizeof(line) - 1);

	line[size - 1] = '\n';
	/* A log that cannot be written cannot be reported either. */
	if (write(fd, line, size) < 0)
		return;
}

void log_line(enum log_level level, const char *format, ...)
{
	uint64_t state = atomic_load_explicit(&log_state, memory_order_acquire);
	char text[LINE_BYTES - 64];
	int saved = errno;
	va_list args;

	if (state == 0)
		state = log_open();
	if (level <= (enum log_level)(state & 0xff) || level <= LOG_WARN) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
	}
	if (level <= (enum log_level)(state & 0xff))
		line_write((int)(state >> 8), level, text);
	if (level <= LOG_WARN)
		logs_add(level, text);
	errno = saved;
}

void log_refused(const char *symbol, const char *why)
{
	static const char *_Atomic seen[REFUSED_MAX];

	/* Slots are filled in order, each once: the exchange decides between two threads. */
	for (size_t i = 0; i < REFUSED_MAX; i++) {
		const char *there = atomic_load_explicit(&seen[i], memory_order_acquire);

		if (!there && atomic_compare_exchange_strong_explicit(&seen[i], &there, symbol,
				      memory_order_acq_rel, memory_order_acquire)) {
			log_warn("%s: %s", symbol, why);
			return;
		}
		if (!strcmp(there, symbol))
			return;
	}
}
