/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_H
#define WORKER_H

struct session;

/* Starts the worker thread. 0 or -errno. */
int session_start(struct session *session);

/* Loop: the client has gone, or has to. Until is_done, call it again now and then. */
void session_end(struct session *session);

/*
 * Worker: gives back everything the session has in the driver; waits for its
 * work first. Whoever waits too long for that ends the server (client_conn.c).
 */
void session_clean_up(struct session *session);

/*
 * Serves what lies in the ring now. 1: something did, 0: nothing did.
 * -EBADMSG: malformed; the log has been told.
 */
int worker_serve(struct session *session);

#endif
