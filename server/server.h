/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_H
#define SERVER_H

/*
 * The loop of the process: starting, its clients, stopping, and what a GPU
 * fault means. Loop thread, but where it says otherwise. The loop never waits:
 * not for the driver, not for a client, not for the daemon.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "control.h"
#include "fault_report.h"
#include "client_conn.h"

/* With CUDA_VERSION; in the log and for -v. */
#define VERSION_LINE "CUDA MPS Server for Linux/Unix. Binary version: %d"

struct server {
	uv_loop_t loop;
	uv_async_t news;  /* from any thread: look round */
	uv_timer_t tick;  /* runs while somebody is ending */
	uv_timer_t looks; /* ... while somebody is there */
	uv_signal_t sigterm, sigint;
	struct control control;
	uid_t uid;
	bool is_multiuser; /* its clients are any user's, and kept apart by their UIDs */
	struct user *users;
	int grace_ms;

	pthread_t starter; /* runs cuInit() */
	atomic_bool is_started;
	bool is_ready; /* ... and the loop knows */
	uint32_t init_result;

	struct client_conn *conns;
	struct newcomer *newcomers;
	unsigned n_conns, n_active;
	uint32_t last_session;

	bool is_stopping; /* takes nobody new, ends when the last client has left */
	bool is_forced;   /* ... nor waits for those who are there */
	bool is_closing;  /* that was it */
	bool is_faulted;
	struct fault_report fault_report;
	uint64_t fault_ms; /* when, by the loop's clock */
	uint64_t alone_ms; /* since when there is no client */
};

/* Connects to the daemon and opens the driver. 0 or -errno; the log has been told. */
int server_init(struct server *server, uid_t uid, bool is_multiuser);

/* Runs until it is told to stop. */
void server_run(struct server *server);

void server_fini(struct server *server);

/* Takes nobody new; `force': nor waits for those who are there. */
void server_stop(struct server *server, bool force);

/* Somebody is there: have a look now and then whether his calls come back. */
void server_start_looks(struct server *server);

/* A client has gone, for good. */
void server_conn_gone(struct server *server);

/* Somebody is ending: have a look ten times a second. */
void server_start_tick(struct server *server);

/* What the daemon is told about us, now and after it was replaced: its GPUs come first. */
void server_notify_devices(struct server *server);
void server_notify_state(struct server *server);

#endif
