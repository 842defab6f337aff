/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_CONN_H
#define TOP_CONN_H

/*
 * The connection of top to the daemon. It stays open from one sample to the next, so the daemon
 * logs it once, and its end is noticed at once. Never blocks.
 */

#include "top_sample.h"

struct top_conn {
	const char *path; /* of the control socket; not owned */
	int fd;           /* -EBADF: there is no connection */
	bool is_waiting;  /* for a reply */
	char *reply;      /* what has come of it */
	size_t size, room;
	char why[512]; /* the last failure, for people */
};

void top_conn_init(struct top_conn *conn, const char *path);
void top_conn_close(struct top_conn *conn);

/*
 * Asks for a sample; connects first, if necessary, to a daemon that gets `wait_ms' if its queue
 * is full. 0, or -errno and `why'; the connection is then closed.
 */
int top_conn_ask(struct top_conn *conn, int wait_ms);

/*
 * Reads what has come. 1: `ret_sample' is set. 0: more will come. -errno and `why'; the
 * connection is then closed.
 */
int top_conn_read(struct top_conn *conn, struct top_sample *ret_sample);

/* The reply takes too long: closes the connection and sets `why'. */
void top_conn_give_up(struct top_conn *conn);

#endif
