/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes log lines to standard error as plain text. The daemon reads them from a pipe and
 * adds the time. Any thread.
 *
 * Invariant: a line is one write() of less than PIPE_BUF bytes, so lines of different
 * threads never mix.
 */

#include "log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "lock.h"

#define KEPT_SIZE (32u << 10) /* a new pipe holds that many bytes, and the ages */

struct kept_line {
	uint64_t at_ms;
	uint32_t size; /* of the text after this header, without a newline */
};

static struct {
	struct lock lock;
	atomic_bool any;
	size_t size;
	unsigned n_left_out;
	char bytes[KEPT_SIZE];
} kept = {.lock = LOCK_INIT(SERVER_LOG)};

/* A terminal shares its flags with the shell that started the server. Leave those alone. */
static void make_nonblocking(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void log_init(void)
{
	make_nonblocking(STDERR_FILENO);
}

static bool log_put(const char *line, size_t size)
{
	ssize_t n;

	do
		n = write(STDERR_FILENO, line, size);
	while (n < 0 && errno == EINTR);
	return n >= 0;
}

static bool put_aged(const char *text, size_t size, uint64_t age_ms)
{
	char line[LOG_LINE_MAX];
	int n = snprintf(line, sizeof(line) - 1, "%.*s (%llu.%03u s ago)",
		(int)MIN(size, sizeof(line) - 32), text, (unsigned long long)(age_ms / 1000),
		(unsigned)(age_ms % 1000));

	line[n++] = '\n';
	return log_put(line, (size_t)n);
}

static void log_keep(const char *text, size_t size)
{
	const struct kept_line line = {now_ms(), (uint32_t)size};

	lock_hold(&kept.lock);
	if (kept.n_left_out == 0 && sizeof(line) + size <= KEPT_SIZE - kept.size) {
		memcpy(kept.bytes + kept.size, &line, sizeof(line));
		memcpy(kept.bytes + kept.size + sizeof(line), text, size);
		kept.size += sizeof(line) + size;
	} else {
		kept.n_left_out++;
	}
	atomic_store(&kept.any, true);
}

/* Returns the number of bytes that could be written. Under the lock. */
static size_t put_kept_lines(void)
{
	uint64_t now = now_ms();
	size_t at = 0;

	while (at < kept.size) {
		struct kept_line line;

		memcpy(&line, kept.bytes + at, sizeof(line));
		if (!put_aged(kept.bytes + at + sizeof(line), line.size, now - line.at_ms))
			break;
		at += sizeof(line) + line.size;
	}
	return at;
}

static bool put_kept(void)
{
	char note[64];
	size_t n;
	bool is_empty;

	lock_hold(&kept.lock);
	n = put_kept_lines();
	kept.size -= n;
	memmove(kept.bytes, kept.bytes + n, kept.size);
	if (kept.size == 0 && kept.n_left_out > 0) {
		int size = snprintf(
			note, sizeof(note), "%u lines after these are lost\n", kept.n_left_out);

		if (log_put(note, (size_t)size))
			kept.n_left_out = 0;
	}
	is_empty = kept.size == 0 && kept.n_left_out == 0;
	atomic_store(&kept.any, !is_empty);
	return is_empty;
}

void log_line(const char *format, ...)
{
	int saved = errno;
	char line[LOG_LINE_MAX];
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (size < 0)
		return;
	size = MIN(size, (int)sizeof(line) - 2);
	line[size] = '\n';
	if ((atomic_load(&kept.any) && !put_kept()) || !log_put(line, (size_t)size + 1))
		log_keep(line, (size_t)size);
	errno = saved;
}

int log_take(int fd)
{
	_cleanup_close_ int pipe = fd;

	make_nonblocking(pipe);
	if (dup2(pipe, STDERR_FILENO) < 0)
		return -errno;
	if (atomic_load(&kept.any))
		put_kept();
	return 0;
}
