/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CONN_H
#define CLIENT_CONN_H

/*
 * A client as seen by the loop: its connection and its process. When either ends, the
 * session ends. Loop thread.
 */

#include <sys/types.h>
#include <uv.h>

#include "frame.h"

struct server;
struct session;

struct client_conn {
	struct server *server; /* not owned */
	struct client_conn *next;
	uint64_t id; /* given by the daemon */
	pid_t pid;
	uint32_t program; /* these two matter only to the daemon: see FRAME_CLIENT_HERE */
	char command[FRAME_TEXT_MAX];
	struct session *session;
	struct sharer *process; /* whose resources its session shares */
	int connection, pidfd;
	uv_poll_t hangup, death;
	bool has_hangup, has_death; /* open in the loop */
	bool has_left;      /* its connection or its process has ended, or the server ends it */
	bool is_terminated; /* by the operator: its work ends, the process may continue */
	bool is_ending;     /* its work must end */
	bool is_inactive;   /* ... and has ended, with its worker, but its process continues */
	bool is_active;     /* counted as active */
	uint64_t notified;  /* GPUs whose contexts the daemon knows, one bit each */
	uint64_t ending_ms;
	uint64_t grace_from_ms; /* from when on its work, or a driver call, has MPS_GRACE_MS */
	uint64_t seen_held;     /* what its session held at the last look, */
	uint32_t seen_unpinned; /* and what it had unpinned */
};

/*
 * Welcomes or refuses a client that the daemon sends. Reports an error to the client and to
 * the log. Takes `connection'.
 */
void client_conn_new(struct server *server, const struct frame_client *client, int connection);

/* Starts its end; it is freed after its worker has cleaned up. */
void client_conn_end(struct client_conn *conn);

/*
 * Whether its session can end only after work of other clients: it waits for their semaphores, or
 * its worker for the driver's lock, which is held as long as a kernel of theirs runs.
 */
bool client_conn_waits_for_others(const struct client_conn *conn);

/* Whether its session, without work on a GPU, has given something back since the last call. */
bool client_conn_gives_back(struct client_conn *conn);

/*
 * Ends only its work. From now on every call of the client returns 810. The connection stays
 * until the client closes it. The daemon gets an answer when the client's worker has cleaned
 * up.
 */
void client_conn_terminate(struct client_conn *conn);

/*
 * Refuses a client that was not welcomed, and notifies the daemon that the client has gone.
 * The caller keeps `connection'.
 */
void client_conn_refuse(struct server *server, const struct frame_client *client, int connection,
	uint32_t result, const char *text);

/* Handles what its worker has done meanwhile. May free `conn'. */
void client_conn_update(struct client_conn *conn);

/* Logs a call that takes long, then again at growing intervals. */
void client_conn_check_watchdog(struct client_conn *conn);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE. */
void client_conn_notify(
	struct server *server, const struct client_conn *conn, enum frame_type type);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE for a client without a client_conn. */
void client_conn_notify_of(
	struct server *server, const struct frame_client *client, enum frame_type type);

/* Notifies a new daemon of each GPU that the client uses. */
void client_conn_notify_contexts(struct client_conn *conn);

/* The group's limits have changed: notifies the client and the daemon. */
void client_conn_note_group(struct client_conn *conn);

#endif
