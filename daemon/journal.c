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

#include "directory.h"
#include "journal.h"
#include "lines.h"

size_t journal_format(char *line, size_t size, const struct timespec *when, const char *role,
	pid_t pid, const char *text)
{
	struct tm tm;
	char stamp[32];
	int n;

	localtime_r(&when->tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	n = snprintf(line, size - 1, "[%s.%03ld %s %5d] %s", stamp, when->tv_nsec / 1000000, role,
		pid, text);
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

static int put(struct journal_file *file, const char *line, size_t length)
{
	ssize_t n = write(file->fd, line, length);

	if (n == (ssize_t)length)
		return 0;
	file->last_error = n < 0 ? errno : ENOSPC;
	file->n_lost++;
	return -file->last_error;
}

static void put_line(struct journal *journal, struct journal_file *file, const char *role,
	pid_t pid, const char *text)
{
	char line[JOURNAL_LINE_MAX], note[160], lost[128];
	struct timespec now;
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	length = journal_format(line, sizeof(line), &now, role, pid, text);
	if (journal->echo)
		echo_line(line, length);
	if (file->n_lost > 0) {
		size_t n;

		snprintf(lost, sizeof(lost), "%lu lines could not be written here: %s",
			file->n_lost, strerror(file->last_error));
		n = journal_format(note, sizeof(note), &now, "Control", getpid(), lost);
		if (write(file->fd, note, n) != (ssize_t)n) {
			file->n_lost++;
			return;
		}
		file->n_lost = 0;
	}
	put(file, line, length);
}

void journal_control_as(struct journal *journal, pid_t pid, const char *format, ...)
{
	char text[LINE_MAX_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(journal, &journal->control, "Control", pid, text);
}

void journal_control(struct journal *journal, const char *format, ...)
{
	char text[LINE_MAX_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(journal, &journal->control, "Control", getpid(), text);
}

void journal_server(struct journal *journal, bool is_up, pid_t pid, const char *text)
{
	put_line(journal, &journal->server, is_up ? "Server" : "Other", pid, text);
}

static int open_file(int dir, const char *directory, const char *name, struct reason *reason)
{
	int fd = directory_open_log(dir, name);

	if (fd >= 0)
		return fd;
	return reason_set(reason, fd,
		"Cannot write %s/%s: %s: set CUDA_MPS_LOG_DIRECTORY to a directory that UID %u can "
		"write, without links or files of others by that name",
		directory, name, strerror(-fd), geteuid());
}

int journal_reopen(struct journal *journal, struct reason *reason)
{
	_cleanup_close_ int dir = -EBADF, control = -EBADF, server = -EBADF;

	dir = directory_open(journal->directory, "CUDA_MPS_LOG_DIRECTORY", reason);
	if (dir < 0)
		return dir;
	control = open_file(dir, journal->directory, "control.log", reason);
	if (control < 0)
		return control;
	server = open_file(dir, journal->directory, "server.log", reason);
	if (server < 0)
		return server;
	journal_close(journal);
	journal->control.fd = TAKE_FD(control);
	journal->server.fd = TAKE_FD(server);
	return 0;
}

int journal_open(struct journal *journal, const char *directory, bool echo, struct reason *reason)
{
	*journal = (struct journal){
		.directory = directory,
		.control.fd = -EBADF,
		.server.fd = -EBADF,
		.echo = echo,
	};
	return journal_reopen(journal, reason);
}

void journal_close(struct journal *journal)
{
	closep(&journal->control.fd);
	closep(&journal->server.fd);
	journal->control.fd = journal->server.fd = -EBADF;
}
