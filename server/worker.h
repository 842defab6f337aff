/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_H
#define WORKER_H

struct session;

/* Reads the settings, before the first session. */
void worker_init(void);

/* Starts the worker thread. 0 or -errno. */
int session_start(struct session *session);

/* Loop: the client has gone, or must go. Until is_done, call it again regularly. */
void session_end(struct session *session);

/*
 * Worker: waits for the session's work, then gives back everything that the session has in
 * the driver. If that takes too long, the server ends (client_conn.c).
 */
void session_clean_up(struct session *session);

/*
 * Fetches the messages that are in the ring now, and executes them. 1: there were some. 0: the ring
 * was empty. -EBADMSG: a message is malformed; the log has the reason.
 */
int worker_fetch(struct session *session);

#endif
