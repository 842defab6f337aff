/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Both logs. Loop thread.
 *
 * Invariant: a line is written whole by one write(), so that lines of several
 * writers never mix, and nothing here waits for a reader.
 */

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "directory.h"
#include "log_file.h"
#include "line_buffer.h"

void journal_stamp(const struct timespec *when, char text[JOURNAL_STAMP])
{
	struct tm tm;
	char seconds[24];

	localtime_r(&when->tv_sec, &tm);
	strftime(seconds, sizeof(seconds), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(text, JOURNAL_STAMP, "%s.%03ld", seconds, when->tv_nsec / 1000000);
}

size_t journal_format(char *line, size_t size, const struct timespec *when, const char *role,
	pid_t pid, const char *text)
{
	char stamp[JOURNAL_STAMP];
	int n;

	journal_stamp(when, stamp);
	n = snprintf(line, size - 1, "[%s %s %5d] %s", stamp, role, pid, text);
	if ((size_t)n > size - 2)
		n = (int)size - 2;
	line_clean(line);
	line[n] = '\n';
	line[n + 1] = '\0';
	return (size_t)n + 1;
}

/* Standard output may be a pipe that nobody reads: then the line is left out. */
static void echo_line(const char *line, size_t length)
{
	struct pollfd pfd = {.fd = STDOUT_FILENO, .events = POLLOUT};
	ssize_t n;

	if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT))
		return;
	n = write(STDOUT_FILENO, line, length);
	(void)n;
}

static int open_file(
	const struct journal *journal, int directory, const char *name, struct journal_file *ret)
{
	int fd = directory_open_log(directory, name, journal->options.is_private);
	struct stat st = {0};

	if (fd < 0)
		return fd;
	fstat(fd, &st);
	*ret = (struct journal_file){.name = name, .fd = fd, .size = (uint64_t)MAX(st.st_size, 0)};
	return 0;
}

/* Makes room: the file gets another name, and that of before is gone. */
static int rotate(struct journal *journal, struct journal_file *file)
{
	struct journal_file next;
	char old[32];
	int r;

	snprintf(old, sizeof(old), "%s.1", file->name);
	/* It may be gone: moved by an attempt before, or by somebody else. */
	if (renameat(journal->directory, file->name, journal->directory, old) < 0 &&
		errno != ENOENT)
		return -errno;
	r = open_file(journal, journal->directory, file->name, &next);
	if (r < 0)
		return r;
	next.n_lost = file->n_lost;
	next.last_error = file->last_error;
	close(file->fd);
	*file = next;
	return 0;
}

static int put(struct journal *journal, struct journal_file *file, const char *line, size_t length)
{
	uint64_t size_max = journal->options.size_max;
	ssize_t n;
	int r = 0;

	if (size_max > 0 && file->size + length > size_max)
		r = rotate(journal, file);
	if (r == 0) {
		n = write(file->fd, line, length);
		r = n == (ssize_t)length ? 0 : n < 0 ? -errno : -ENOSPC;
	}
	if (r == 0) {
		file->size += length;
		return 0;
	}
	file->last_error = -r;
	file->n_lost++;
	return r;
}

/* Says first, where lines were lost, how many. */
static int put_lost(struct journal *journal, struct journal_file *file, const struct timespec *now)
{
	unsigned long n_lost = file->n_lost;
	char note[160], text[128];
	size_t length;
	int r;

	if (n_lost == 0)
		return 0;
	snprintf(text, sizeof(text), "%lu lines could not be written here: %s", n_lost,
		strerror(file->last_error));
	length = journal_format(note, sizeof(note), now, "Control", getpid(), text);
	r = put(journal, file, note, length);
	if (r == 0)
		file->n_lost = 0;
	return r;
}

static void put_line(struct journal *journal, struct journal_file *file, const char *role,
	pid_t pid, const char *text)
{
	char line[JOURNAL_LINE_MAX];
	struct timespec now;
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	length = journal_format(line, sizeof(line), &now, role, pid, text);
	if (journal->options.echo)
		echo_line(line, length);
	if (put_lost(journal, file, &now) == 0)
		(void)put(journal, file, line, length);
}

static void put_control(struct journal *journal, const struct journal_about *about, pid_t pid,
	const char *format, va_list args)
{
	char text[LINE_MAX_SIZE];

	vsnprintf(text, sizeof(text), format, args);
	line_clean(text);
	put_line(journal, &journal->control, "Control", pid, text);
	journald_send(&journal->journald, false, about, text);
}

void journal_control_as(struct journal *journal, pid_t pid, const char *format, ...)
{
	const struct journal_about about = {.server = pid};
	va_list args;

	va_start(args, format);
	put_control(journal, &about, pid, format, args);
	va_end(args);
}

void journal_control_about(
	struct journal *journal, const struct journal_about *about, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_control(journal, about, getpid(), format, args);
	va_end(args);
}

void journal_control(struct journal *journal, const char *format, ...)
{
	const struct journal_about about = {0};
	va_list args;

	va_start(args, format);
	put_control(journal, &about, getpid(), format, args);
	va_end(args);
}

void journal_debug(struct journal *journal, const char *format, ...)
{
	char text[LINE_MAX_SIZE];
	va_list args;

	if (!journal->is_verbose)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(journal, &journal->control, "Control", getpid(), text);
}

void journal_server(
	struct journal *journal, bool is_up, const struct journal_about *about, const char *text)
{
	const char *role = about->server <= 0 ? "Control" : is_up ? "Server" : "Other";

	put_line(journal, &journal->server, role, about->server > 0 ? about->server : getpid(),
		text);
	journald_send(&journal->journald, about->server > 0, about, text);
}

static void close_files(struct journal *journal)
{
	closep(&journal->directory);
	closep(&journal->control.fd);
	closep(&journal->server.fd);
	journal->directory = journal->control.fd = journal->server.fd = -EBADF;
}

static int open_or_say(const struct journal *journal, int directory, const char *name,
	struct journal_file *ret, struct reason *reason)
{
	int r = open_file(journal, directory, name, ret);

	if (r == 0)
		return 0;
	return reason_set(reason, r,
		"Cannot write %s/%s: %s: set CUDA_MPS_LOG_DIRECTORY to a directory that UID %u can "
		"write, without links or files of others by that name",
		journal->options.directory, name, strerror(-r), geteuid());
}

int journal_reopen(struct journal *journal, struct reason *reason)
{
	_cleanup_close_ int directory =
		directory_open(journal->options.directory, "CUDA_MPS_LOG_DIRECTORY", reason);
	struct journal_file control = {.fd = -EBADF}, server = {.fd = -EBADF};
	int r;

	if (directory < 0)
		return directory;
	r = open_or_say(journal, directory, "control.log", &control, reason);
	if (r < 0)
		return r;
	r = open_or_say(journal, directory, "server.log", &server, reason);
	if (r < 0) {
		closep(&control.fd);
		return r;
	}
	close_files(journal);
	journal->directory = TAKE_FD(directory);
	journal->control = control;
	journal->server = server;
	return 0;
}

int journal_open(
	struct journal *journal, const struct journal_options *options, struct reason *reason)
{
	*journal = (struct journal){
		.options = *options,
		.directory = -EBADF,
		.control.fd = -EBADF,
		.server.fd = -EBADF,
	};
	journald_open(&journal->journald);
	/* There it is already. */
	if (journal->journald.fd >= 0 && journald_has(STDOUT_FILENO))
		journal->options.echo = false;
	return journal_reopen(journal, reason);
}

void journal_close(struct journal *journal)
{
	close_files(journal);
	journald_close(&journal->journald);
}
