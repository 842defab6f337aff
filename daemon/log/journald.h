/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNALD_H
#define JOURNALD_H

/*
 * The journal of systemd, if systemd has started the daemon: each line of the
 * logs goes there too, with fields. Its native protocol is a datagram of lines
 * "NAME=VALUE". Loop thread.
 */

#include <sys/types.h>

#include "base.h"

/* Priorities of syslog. */
#define JOURNAL_ERROR 3
#define JOURNAL_WARNING 4
#define JOURNAL_INFO 6

/* The server, client and user that a line is about, if known; all 0: the daemon itself. */
struct log_subject {
	pid_t server, client; /* 0: none */
	bool has_uid;
	uid_t uid;
	int priority; /* 0: JOURNAL_INFO */
};

struct journald {
	int fd; /* negative: not connected */
	unsigned long n_lost;
};

/* Opens the journal if systemd has started the daemon. */
void journald_open(struct journald *journald);
void journald_close(struct journald *journald);

/* Whether a descriptor of the daemon leads to the journal. */
bool journald_is_stream(int fd);

/*
 * Sends a line without its time stamp; `is_server' if a server wrote it. A
 * full journal does not stop the daemon: the next line that fits follows the
 * number of lines that are only in the files.
 */
void journald_send(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text);

#endif
