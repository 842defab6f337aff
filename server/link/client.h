/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_H
#define CLIENT_H

/*
 * The state of a client as seen by the loop: its connection and its process;
 * server/client_conn.h has the functions. Loop thread.
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
	uint32_t gid, account;  /* from its FRAME_CLIENT */
	int connection, pidfd;
	int memories[FRAME_WELCOME_FDS]; /* ring, staging, page */
	uv_poll_t hangup, death;
	bool has_hangup, has_death; /* open in the loop */
	bool has_left;         /* its connection or its process has ended, or the server ends it */
	bool is_terminated;    /* its work ends with error 810, the process may continue */
	bool is_ending;        /* its work must end */
	bool is_inactive;      /* ... and has ended, with its worker, but its process continues */
	bool is_active;        /* counted as active */
	bool survives;         /* a GPU fault: it goes on in a successor (rescue.h) */
	bool is_loss_told;     /* ... and the daemon knows that it does so without its work */
	bool stays_behind;     /* it ends with the server, which moves its clients (departure.h) */
	uint64_t suspected_ms; /* when it may have caused a fault; 0: never (rescue.h) */
	uint32_t probation_ms; /* ... and from then on in the next server; 0: no */
	uint32_t suspend_number;         /* of the daemon's last order to suspend or resume it */
	enum suspension suspension_told; /* to the daemon */
	uint64_t notified;               /* GPUs whose contexts the daemon knows, one bit each */
	uint64_t ending_ms;
	uint64_t grace_from_ms; /* from when on its work, or a driver call, has MPS_GRACE_MS */
	uint64_t seen_held;     /* what its session held at the last look, */
	uint32_t seen_unpinned; /* and what it had unpinned */
};

/*
 * Whether its session, which is at rest, uses memory or an event of one of `conns' that does not
 * move to the next server, or has ended. (client.c)
 */
bool client_lacks_others(const struct client_conn *conn, const struct client_conn *conns,
	bool (*moves)(const struct client_conn *conn));

#endif
