/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CONN_H
#define CLIENT_CONN_H

/*
 * A client as the loop sees it: its connection and its process, which end a
 * session when they end. Loop thread.
 */

#include <sys/types.h>
#include <uv.h>

#include "frame.h"

struct server;
struct session;

struct client_conn {
	struct server *server; /* not owned */
	struct client_conn *next;
	uint64_t id; /* the daemon's */
	pid_t pid;
	uint32_t program; /* these two are the daemon's business: see FRAME_CLIENT_HERE */
	char command[FRAME_TEXT_MAX];
	struct session *session;
	struct user *user; /* NULL: the server has one only */
	int connection, pidfd;
	uv_poll_t hangup, death;
	bool has_hangup, has_death; /* open in the loop */
	bool has_left;      /* its connection or its process has ended, or the server ends it */
	bool is_terminated; /* by the operator: its work ends, the process may stay */
	bool is_ending;     /* its work is to end */
	bool is_inactive;   /* ... and has ended, but its process stays: its worker is gone */
	bool is_active;     /* counted as such */
	uint64_t notified;  /* GPUs of its contexts that the daemon knows, a bit each */
	uint64_t ending_ms;
};

/*
 * Welcomes or refuses a client that the daemon sends; what went wrong the
 * client and the log are told. Takes `connection'.
 */
void client_conn_new(struct server *server, const struct frame_client *client, int connection);

/* Begins its end; it is freed when its worker has cleaned up. */
void client_conn_end(struct client_conn *conn);

/*
 * Ends its work alone. Every call of the client returns 810 from now on; the
 * connection stays until the client closes it. The daemon is answered when the
 * client's worker has cleaned up.
 */
void client_conn_terminate(struct client_conn *conn);

/*
 * Says no to a client that is not welcomed, and tells the daemon that it has
 * gone. The caller keeps `connection'.
 */
void client_conn_refuse(struct server *server, const struct frame_client *client, int connection,
	uint32_t result, const char *text);

/* Looks what its worker has done meanwhile. `peer' may be gone after that. */
void client_conn_update(struct client_conn *conn);

/* Tells the log of a call that takes long, once it does and from time to time. */
void client_conn_check_watchdog(struct client_conn *conn);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE. */
void client_conn_notify(
	struct server *server, const struct client_conn *conn, enum frame_type type);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE of one that is not welcomed yet, or never was. */
void client_conn_notify_of(
	struct server *server, const struct frame_client *client, enum frame_type type);

/* Tells a new daemon of each GPU that the client uses. */
void client_conn_notify_contexts(struct client_conn *conn);

/* Groups' limits have changed: tells the client and the daemon what holds now. */
void client_conn_note_group(struct client_conn *conn);

#endif
