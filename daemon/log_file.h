/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNAL_H
#define JOURNAL_H

/*
 * control.log, which the daemon fills, and server.log, to which it appends
 * what its servers write to their standard error. Loop thread.
 *
 * A log that would grow above its size is moved to its name with ".1", and a
 * new one is begun. A log that cannot be written (disk full) stops nothing:
 * lines are counted as lost, and the first one that works again is preceded by
 * their number. Where systemd has started the daemon, its journal gets each line
 * once, too.
 */

#include <sys/types.h>
#include <time.h>

#include "journald.h"
#include "error_message.h"

struct journal_file {
	const char *name;
	int fd;
	uint64_t size;
	int last_error; /* errno of the write that failed last, 0 if none did */
	unsigned long n_lost;
};

struct journal_options {
	const char *directory; /* must outlive the journal */
	bool echo;             /* -f: both go to standard output as well */
	bool is_private;       /* mode 0640: several users' lines stand in them */
	uint64_t size_max;     /* bytes of a file; 0: no limit */
};

struct journal {
	bool is_verbose; /* journal_debug() writes */
	struct journal_options options;
	int directory;
	struct journal_file control, server;
	struct journald journald;
};

/* 0 or -errno with a reason. */
int journal_open(
	struct journal *journal, const struct journal_options *options, struct reason *reason);
void journal_close(struct journal *journal);

/* After the files were moved away (SIGHUP). On failure the old ones stay in use. */
int journal_reopen(struct journal *journal, struct reason *reason);

void journal_control(struct journal *journal, const char *format, ...) _printf_(2, 3);

/* The same about somebody. */
void journal_control_about(struct journal *journal, const struct journal_about *about,
	const char *format, ...) _printf_(3, 4);
/* A line that only log_level debug asks for. */
void journal_debug(struct journal *journal, const char *format, ...) _printf_(2, 3);

/* The same in the name of a process that the daemon has just started. */
void journal_control_as(struct journal *journal, pid_t pid, const char *format, ...) _printf_(3, 4);

/*
 * A line of the server that `about' names: `is_up' once it has been ACTIVE.
 * Without a server it is the daemon's, about servers.
 */
void journal_server(
	struct journal *journal, bool is_up, const struct journal_about *about, const char *text);

/* Bytes that a formatted line may have, its newline and NUL included. */
#define JOURNAL_LINE_MAX 1152

/* Local time: "2026-01-31 23:59:59.000" */
#define JOURNAL_STAMP 48
void journal_stamp(const struct timespec *when, char text[JOURNAL_STAMP]);

/* "[date time.ms ROLE   PID] text\n", control characters replaced. Returns its length. */
size_t journal_format(char *line, size_t size, const struct timespec *when, const char *role,
	pid_t pid, const char *text);

#endif
