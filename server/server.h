/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_H
#define SERVER_H

/*
 * The loop of the process: start, clients, stop, and the effects of a GPU fault. Loop
 * thread, except where noted. The loop never waits for the driver, a client or the daemon.
 *
 * server.c, newcomers.c and client_conn.c call each other: what becomes of a client depends on the
 * state of the server, and the other way round.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "server/link/counter_report.h"
#include "server/link/daemon_link.h"
#include "server/link/fault_report.h"

/* After a fault workers need a moment to finish, unless the driver blocks them. */
#define FAULT_LINGER_MS 1000

/* With CUDA_VERSION; in the log and for -v. */
#define VERSION_LINE "CUDA MPS Server for Linux/Unix. Binary version: %d"

struct server {
	uv_loop_t loop;
	uv_async_t news;  /* from any thread: look for changes */
	uv_timer_t tick;  /* runs while a client is ending */
	uv_timer_t looks; /* ... while there is a client */
	uv_signal_t sigterm, sigint;
	struct work_sampler sampler;
	uid_t uid;
	bool is_multiuser; /* its clients are of any user, kept apart by their UIDs */
	struct sharer *sharers;
	int grace_ms;

	pthread_t starter; /* runs cuInit() */
	atomic_bool is_started;
	bool is_ready; /* ... and the loop has noticed */
	uint32_t init_result;

	struct client_conn *conns;
	struct newcomer *newcomers;
	unsigned n_conns, n_active;
	uint32_t last_session;

	bool is_opening;  /* makes the sessions of clients of another server: arrival.h */
	bool is_stopping; /* accepts no new clients, ends when the last client has left */
	bool is_closing;  /* the loop is about to end */
	bool is_faulted;
	struct fault_report fault_report;
	uint64_t fault_ms; /* time of the fault, by the loop's clock */
	uint64_t alone_ms; /* no client since this time */
};

/* Connects to the daemon and opens the driver. 0 or -errno; the reason is in the log. */
int server_init(
	struct server *server, uid_t uid, bool is_multiuser, const struct daemon_link_ops *orders);

/* Runs until the server is stopped. */
void server_run(struct server *server);

void server_fini(struct server *server);

/* Accepts no new clients. `force': does not wait for present clients either. */
void server_stop(struct server *server, bool force);

/* There is a client: checks regularly whether its calls return. */
void server_start_looks(struct server *server);

/* A client has gone permanently. */
void server_conn_gone(struct server *server);

/* A client is ending: checks ten times a second. */
void server_start_tick(struct server *server);

/*
 * Notifies the daemon of this server, at the start and after a daemon was replaced. The GPUs
 * come first.
 */
void server_notify_devices(struct server *server);
void server_notify_state(struct server *server);

#endif
