/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CONN_H
#define CLIENT_CONN_H

/*
 * What the loop does for a client (client.h). When its connection or its process ends, the session
 * ends. Loop thread.
 */

#include "server/link/client.h"

/*
 * Welcomes or refuses a client that the daemon sends. Reports an error to the client and to
 * the log. Takes `connection'.
 */
void client_conn_new(struct server *server, const struct frame_client *client, int connection);

/*
 * A client with its session, whose worker does not run yet; it is on no list. The session's ID
 * and memories are those of another server; negative descriptors: the memories are made. Takes
 * `connection' and `memories', on failure too. 0 or -errno.
 */
int client_conn_make(struct server *server, const struct frame_client *client, uint32_t session_id,
	int connection, const int memories[FRAME_WELCOME_FDS], struct client_conn **ret_conn);

/* Whether the daemon has not sent one of the client's groups to this server. */
bool client_conn_has_unknown_group(const struct frame_client *client);

/* Frees a client that is on no list. NULL is fine. */
void client_conn_free(struct client_conn *conn);

/* Starts its worker and puts it on the server's list, which owns it then. 0 or -errno. */
int client_conn_start(struct client_conn *conn);

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

/* Answers the daemon's FRAME_TERMINATE with a CUresult. */
void client_conn_answer_terminate(uint64_t id, uint32_t result);

/* This process ends at once, and with it everything of all terminated clients. */
void client_conns_answer_terminate(const struct client_conn *conns);

/*
 * Refuses a client that was not welcomed, and notifies the daemon that the client has gone.
 * The caller keeps `connection'.
 */
void client_conn_refuse(
	const struct frame_client *client, int connection, uint32_t result, const char *text);

/* Handles what its worker has done meanwhile. May free `conn'. */
void client_conn_update(struct client_conn *conn);

/* Logs a call that takes long, then again at growing intervals. */
void client_conn_check_watchdog(struct client_conn *conn);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE. */
void client_conn_notify(const struct client_conn *conn, enum frame_type type);

/* FRAME_CLIENT_HERE or FRAME_CLIENT_GONE for a client without a client_conn. */
void client_conn_notify_of(const struct frame_client *client, enum frame_type type);

/* Notifies a new daemon of each GPU that the client uses. */
void client_conn_notify_contexts(struct client_conn *conn);

/* The group's limits have changed: notifies the client and the daemon. */
void client_conn_note_group(struct client_conn *conn);

#endif
