/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNALD_H
#define JOURNALD_H

/*
 * The journal of systemd, if systemd has started the daemon: each line of the
 * logs goes there too, with fields. Loop thread; a thread of libuv's pool sends one
 * line after another, so that the loop never waits for the journal.
 */

#include <sys/types.h>
#include <uv.h>

#include "daemon/text/list.h"

/* Priorities of syslog. */
#define JOURNAL_ERROR 3
#define JOURNAL_WARNING 4
#define JOURNAL_INFO 6

/* The server, client and user that a line is about, if known; all 0: the daemon itself. */
struct log_subject {
	pid_t server, client; /* 0: none */
	bool is_new_server;   /* the line has the server's PID in place of the daemon's */
	bool has_uid;
	uid_t uid;
	int priority; /* 0: JOURNAL_INFO */
};

struct journald_entry;

struct journald {
	uv_loop_t *loop; /* NULL: no line goes to the journal */
	uv_work_t work;
	struct journald_entry *sending; /* NULL: none; the thread reads it */
	struct list waiting;
	unsigned n_waiting;
	unsigned long n_lost;
};

/* Lines go to the journal if systemd has started the daemon, once the loop runs. */
void journald_open(struct journald *journald, uv_loop_t *loop);

/* Lines that wait are lost. */
void journald_close(struct journald *journald);

/* Whether lines are on their way. */
bool journald_is_sending(const struct journald *journald);

/* Whether a descriptor of the daemon leads to the journal. */
bool journald_is_stream(int fd);

/*
 * Sends a line without its time stamp; `is_server' if a server wrote it. A
 * journal that reads nothing does not stop the daemon: the next line that may wait
 * follows the number of lines that are only in the files.
 */
void journald_send(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text);

#endif
