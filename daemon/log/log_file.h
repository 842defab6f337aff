/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_FILE_H
#define LOG_FILE_H

/*
 * control.log, which the daemon writes, and server.log, to which it appends
 * the standard error of its servers. Loop thread.
 *
 * The text of a log that would exceed its size moves to NAME.1 (log_move.h).
 * A log that cannot be written (disk full) stops nothing: lines are counted as
 * lost, and their number precedes the first line that can be written again. If
 * systemd has started the daemon, each line also goes to its journal once.
 */

#include <sys/types.h>
#include <time.h>

#include "journald.h"
#include "log_move.h"
#include "daemon/text/error_message.h"

struct log_file {
	const char *name;
	int fd;
	uint64_t size;
	struct log_move move;
	int last_error; /* errno of the last failed write, 0 if none failed */
	unsigned long n_lost;
};

struct log_options {
	const char *directory; /* must outlive the logs */
	bool echo;             /* -f: copy both to standard output */
	bool is_private;       /* mode 0640: they contain lines of several users */
	uint64_t size_max;     /* bytes of a file; 0: no limit */
	uv_loop_t *loop;       /* NULL: without a journal */
};

struct log_files {
	bool is_verbose; /* log_debug() writes */
	struct log_options options;
	int directory;
	struct log_file control, server;
	struct journald journald;
};

/* 0 or -errno with an error message. */
int log_files_open(
	struct log_files *logs, const struct log_options *options, struct error_message *error);
void log_files_close(struct log_files *logs);

/* Reopens the logs after they were moved away (SIGHUP). On failure the old files stay in use. */
int log_files_reopen(struct log_files *logs, struct error_message *error);

/* A line about a server, a client or a user. */
void log_control_about(struct log_files *logs, const struct log_subject *about, const char *format,
	...) _printf_(3, 4);

/* A line about nothing of these. */
#define log_control(logs, ...) log_control_about(logs, &(const struct log_subject){0}, __VA_ARGS__)

/* A line that is written only at log_level debug. */
void log_debug(struct log_files *logs, const char *format, ...) _printf_(2, 3);

/*
 * A line of the server that `about' names; `is_up' once it has been ACTIVE.
 * Without a server it is a line of the daemon about servers.
 */
void log_server(
	struct log_files *logs, bool is_up, const struct log_subject *about, const char *text);

/* The most bytes of a formatted line, its newline and NUL included. */
#define LOG_LINE_MAX 1152

/* Local time: "2026-01-31 23:59:59.000" */
#define LOG_TIME_MAX 48
void log_format_time(const struct timespec *when, char text[LOG_TIME_MAX]);

/* "[date time.ms ROLE   PID] text\n", control characters replaced. Returns its length. */
size_t log_format_line(char *line, size_t size, const struct timespec *when, const char *role,
	pid_t pid, const char *text);

#endif
