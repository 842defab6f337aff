/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Both logs. Loop thread.
 *
 * Invariant: one write() writes a whole line, so that the lines of several
 * writers never mix. No function here blocks on a reader.
 */

#include "log_file.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/text/directory.h"
#include "daemon/text/line_buffer.h"

void log_format_time(const struct timespec *when, char text[LOG_TIME_MAX])
{
	struct tm tm;
	char seconds[24];

	localtime_r(&when->tv_sec, &tm);
	strftime(seconds, sizeof(seconds), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(text, LOG_TIME_MAX, "%s.%03ld", seconds, when->tv_nsec / 1000000);
}

size_t log_format_line(char *line, size_t size, const struct timespec *when, const char *role,
	pid_t pid, const char *text)
{
	char stamp[LOG_TIME_MAX];
	int n;

	log_format_time(when, stamp);
	n = snprintf(line, size - 1, "[%s %s %5d] %s", stamp, role, pid, text);
	if ((size_t)n > size - 2)
		n = (int)size - 2;
	line_clean(line);
	line[n] = '\n';
	line[n + 1] = '\0';
	return (size_t)n + 1;
}

/* Standard output may be a pipe that is not read: then the line is dropped. */
static void echo_line(const char *line, size_t length)
{
	struct pollfd pfd = {.fd = STDOUT_FILENO, .events = POLLOUT};
	ssize_t n;

	if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT))
		return;
	n = write(STDOUT_FILENO, line, length);
	(void)n;
}

static int log_file_open(
	const struct log_files *logs, int directory, const char *name, struct log_file *ret)
{
	int fd = directory_open_log(directory, name, logs->options.is_private);
	struct stat st = {0};

	if (fd < 0)
		return fd;
	fstat(fd, &st);
	*ret = (struct log_file){
		.name = name,
		.fd = fd,
		.size = (uint64_t)MAX(st.st_size, 0),
	};
	return 0;
}

static void name_of_old(const struct log_file *file, char name[32])
{
	snprintf(name, 32, "%s.1", file->name);
}

/* Renames the file, which replaces its predecessor, and begins a new one. */
static int log_file_rename(struct log_files *logs, struct log_file *file)
{
	struct log_file next;
	char old[32];
	int r;

	name_of_old(file, old);
	/* The file may be missing: moved by an earlier attempt, or by another program. */
	if (renameat(logs->directory, file->name, logs->directory, old) < 0 && errno != ENOENT)
		return -errno;
	r = log_file_open(logs, logs->directory, file->name, &next);
	if (r < 0)
		return r;
	next.n_lost = file->n_lost;
	next.last_error = file->last_error;
	close(file->fd);
	*file = next;
	return 0;
}

/* Before a line is written that would make the file too large, and while its text moves. */
static int log_file_make_space(struct log_files *logs, struct log_file *file)
{
	char old[32];
	int r = 0;

	name_of_old(file, old);
	if (!file->move.is_active)
		r = log_move_begin(&file->move, logs->directory, file->name, file->fd, old);
	if (r == 0)
		r = log_move_step(&file->move);
	if (r > 0)
		file->size = 0;
	/* A disk without space for a copy has space for another name. */
	return r < 0 ? log_file_rename(logs, file) : 0;
}

/* The file grows while its text moves, by far less than the text moves. */
static uint64_t limit_of(uint64_t size_max)
{
	return size_max - size_max / 32;
}

static int log_file_write(
	struct log_files *logs, struct log_file *file, const char *line, size_t length)
{
	uint64_t size_max = logs->options.size_max;
	ssize_t n;
	int r = 0;

	if (file->move.is_active || (size_max > 0 && file->size + length > limit_of(size_max)))
		r = log_file_make_space(logs, file);
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

/* Reports lost lines before the next line. */
static int log_file_report_lost(
	struct log_files *logs, struct log_file *file, const struct timespec *now)
{
	unsigned long n_lost = file->n_lost;
	char note[160], text[128];
	size_t length;
	int r;

	if (n_lost == 0)
		return 0;
	snprintf(text, sizeof(text), "%lu lines could not be written here: %s", n_lost,
		strerror(file->last_error));
	length = log_format_line(note, sizeof(note), now, "Control", getpid(), text);
	r = log_file_write(logs, file, note, length);
	if (r == 0)
		file->n_lost = 0;
	return r;
}

static void write_log_line(struct log_files *logs, struct log_file *file, const char *role,
	pid_t pid, const char *text)
{
	char line[LOG_LINE_MAX];
	struct timespec now;
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	length = log_format_line(line, sizeof(line), &now, role, pid, text);
	if (logs->options.echo)
		echo_line(line, length);
	if (log_file_report_lost(logs, file, &now) == 0)
		(void)log_file_write(logs, file, line, length);
}

void log_control_about(
	struct log_files *logs, const struct log_subject *about, const char *format, ...)
{
	pid_t pid = about->is_new_server ? about->server : getpid();
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	line_clean(text);
	write_log_line(logs, &logs->control, "Control", pid, text);
	journald_send(&logs->journald, false, about, text);
}

void log_debug(struct log_files *logs, const char *format, ...)
{
	char text[LINE_MAX_SIZE];

	if (!logs->is_verbose)
		return;
	format_arguments(text, format);
	write_log_line(logs, &logs->control, "Control", getpid(), text);
}

void log_server(
	struct log_files *logs, bool is_up, const struct log_subject *about, const char *text)
{
	const char *role = about->server <= 0 ? "Control" : is_up ? "Server" : "Other";

	write_log_line(
		logs, &logs->server, role, about->server > 0 ? about->server : getpid(), text);
	journald_send(&logs->journald, about->server > 0, about, text);
}

static void close_log_files(struct log_files *logs)
{
	closep(&logs->directory);
	closep(&logs->control.fd);
	closep(&logs->server.fd);
	log_move_end(&logs->control.move);
	log_move_end(&logs->server.move);
	logs->directory = logs->control.fd = logs->server.fd = -EBADF;
}

static int log_file_open_or_explain(const struct log_files *logs, int directory, const char *name,
	struct log_file *ret, struct error_message *error)
{
	int r = log_file_open(logs, directory, name, ret);

	if (r == 0)
		return 0;
	return error_message_set(error, r,
		"Cannot write %s/%s: %s: set CUDA_MPS_LOG_DIRECTORY to a directory that UID %u can "
		"write and that has neither a link nor another user's file of that name",
		logs->options.directory, name, strerror(-r), geteuid());
}

int log_files_reopen(struct log_files *logs, struct error_message *error)
{
	_cleanup_close_ int directory =
		directory_open(logs->options.directory, "CUDA_MPS_LOG_DIRECTORY", error);
	struct log_file control = {.fd = -EBADF}, server = {.fd = -EBADF};
	int r;

	if (directory < 0)
		return directory;
	r = log_file_open_or_explain(logs, directory, "control.log", &control, error);
	if (r < 0)
		return r;
	r = log_file_open_or_explain(logs, directory, "server.log", &server, error);
	if (r < 0) {
		closep(&control.fd);
		return r;
	}
	close_log_files(logs);
	logs->directory = TAKE_FD(directory);
	logs->control = control;
	logs->server = server;
	return 0;
}

int log_files_open(
	struct log_files *logs, const struct log_options *options, struct error_message *error)
{
	*logs = (struct log_files){
		.options = *options,
		.directory = -EBADF,
		.control.fd = -EBADF,
		.server.fd = -EBADF,
	};
	journald_open(&logs->journald, options->loop);
	/* Standard output leads to the journal already. */
	if (logs->journald.loop && journald_is_stream(STDOUT_FILENO))
		logs->options.echo = false;
	return log_files_reopen(logs, error);
}

void log_files_close(struct log_files *logs)
{
	close_log_files(logs);
	journald_close(&logs->journald);
}
