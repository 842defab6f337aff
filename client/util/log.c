/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Log lines of the client library. Any thread of the application.
 *
 * Invariant: a process reads the variable and opens the file once, at its first
 * line. No lock is held that a forked child could find locked for long (logs.h).
 */

#include "log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "descriptor.h"
#include "logs.h"

#define LINE_BYTES 2560
#define REFUSED_MAX 1024

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* Where lines go, and which; NULL before the first line. */
struct destination {
	enum log_level level;
	struct descriptor file; /* none: standard error */
};

static struct destination *_Atomic destination;

static enum log_level level_parse(const char *text, size_t length)
{
	for (enum log_level level = LOG_ERROR; level <= LOG_DEBUG; level++)
		if (strlen(level_names[level]) == length &&
			!strncmp(level_names[level], text, length))
			return level;
	return LOG_WARN;
}

static void open_file(struct destination *to, const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

	descriptor_note(&to->file, descriptor_raise(fd));
}

static const struct destination *log_open(void)
{
	static const struct destination standard = {.level = LOG_WARN, .file = {.fd = -EBADF}};
	const char *wanted = secure_getenv("MPS_CLIENT_LOG");
	struct destination *new = malloc(sizeof(*new)), *before = NULL;

	if (!new)
		return &standard;
	*new = standard;
	if (wanted) {
		size_t length = strcspn(wanted, ",");

		new->level = level_parse(wanted, length);
		if (wanted[length] == ',')
			open_file(new, wanted + length + 1);
	}
	if (atomic_compare_exchange_strong_explicit(
		    &destination, &before, new, memory_order_acq_rel, memory_order_acquire))
		return new;
	/* Another thread has opened its file first: use that file. */
	descriptor_close(&new->file);
	free(new);
	return before;
}

static void line_write(const struct destination *to, enum log_level level, const char *text)
{
	char line[LINE_BYTES];
	int n = snprintf(line, sizeof(line), "mps-client[%d]: %s: %s\n", (int)getpid(),
		level_names[level], text);
	size_t size = MIN((size_t)n, sizeof(line) - 1);

	line[size - 1] = '\n';
	/* A log that cannot be written cannot be reported either. */
	(void)descriptor_write(
		to->file.fd < 0 ? descriptor_standard(STDERR_FILENO) : &to->file, line, size);
}

void log_line(enum log_level level, const char *format, ...)
{
	const struct destination *to = atomic_load_explicit(&destination, memory_order_acquire);
	char text[LINE_BYTES - 64];
	int saved = errno;
	va_list args;

	if (!to)
		to = log_open();
	if (level <= to->level || level <= LOG_WARN) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
	}
	if (level <= to->level)
		line_write(to, level, text);
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
