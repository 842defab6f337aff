/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNALD_H
#define JOURNALD_H

/*
 * The journal of systemd, if the daemon was started by it: each line of the
 * logs goes there too, with fields. Its native protocol is a datagram of lines
 * "NAME=VALUE". Loop thread.
 */

#include <sys/types.h>

#include "base.h"

/* Priorities, as syslog's. */
#define JOURNAL_ERROR 3
#define JOURNAL_WARNING 4
#define JOURNAL_INFO 6

/* Whose line it is, as far as that is known; all 0: the daemon's own. */
struct log_subject {
	pid_t server, client; /* 0: none */
	bool has_uid;
	uid_t uid;
	int priority; /* 0: JOURNAL_INFO */
};

struct journald {
	int fd; /* negative: there is none */
	unsigned long n_lost;
};

/* Opens it where systemd has started the daemon. */
void journald_open(struct journald *journald);
void journald_close(struct journald *journald);

/* Whether a descriptor of ours leads to the journal as well. */
bool journald_is_stream(int fd);

/*
 * Sends a line without its stamp; `is_server' if a server wrote it. A journal
 * that takes no more does not stop the daemon: its next line is preceded by the
 * number of those that are in the files alone.
 */
void journald_send(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text);

#endif
