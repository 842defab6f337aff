/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAEMON_H
#define DAEMON_H

/*
 * The control daemon as a whole: what all its files share. One thread, the
 * loop's; it never waits for anybody.
 */

#include <uv.h>

#include "rate_limit.h"
#include "config.h"
#include "devices.h"
#include "faults.h"
#include "groups.h"
#include "log_file.h"
#include "kernel_log.h"
#include "line_limit.h"
#include "list.h"
#include "listener.h"
#include "settings.h"

struct conn;
struct probe;
struct tenant;

struct daemon {
	uv_loop_t loop;
	struct config config;
	struct log_files logs;
	struct listener listener;
	struct list tenants; /* every UID we know: struct tenant */
	struct tenant *tenants_by_uid[1024];
	struct list servers; /* in the order of their starts: struct server */
	unsigned n_tenants, n_servers, n_sessions;
	unsigned n_guest_servers, n_guest_conns, guest_conns_max; /* see allowances.h */
	struct rate_limit guest_starts;
	struct line_limit untenanted_lines; /* of connections without a tenant */
	uv_timer_t report_timer;            /* lines were left out (tenant_log.h) */
	uint64_t last_client_id;
	struct faults faults;
	struct kernel_log kernel_log;
	uint64_t n_queued;        /* counts those who have begun to wait in a slot */
	bool is_exclusive;        /* servers take turns: see turns.h */
	struct settings settings; /* the defaults */
	struct groups groups;
	struct devices devices;             /* of the last server or probe that is to be believed */
	struct probe *probe;                /* NULL: none runs */
	struct error_message probe_failure; /* of the last one; "": it did not fail */
	uint64_t probe_failed_ms, probe_began_ms;
	bool is_probe_due;      /* probe_again() was asked for too soon after the last one */
	uv_timer_t retry_timer; /* something has to wait for its turn */
	uv_timer_t idle_timer;  /* looks for what is of no more use */

	bool is_quitting;
	bool is_forced;
	bool is_over;           /* every server is gone; only who asked has to be answered */
	struct list partitions; /* of SMs, with -S: struct partition */
	struct list quit_conns; /* connections whose `quit' waits */
	uv_timer_t quit_timer;

	uv_signal_t signals[4];
};

/*
 * Accepts connections from now on. The configuration is loaded, the journal
 * and the listener are open. 0 or -errno with a reason.
 */
int daemon_start(struct daemon *daemon, struct error_message *error);

/* Returns when the daemon has ended: no server and no handle is left. */
void daemon_run(struct daemon *daemon);

/*
 * Begins the end. Servers leave when their clients have left; after
 * `timeout_ms' they are made to (0: now; negative: never). `conn' (or NULL) is
 * resumed when all is over. A second call can only shorten the wait.
 */
void daemon_quit(struct daemon *daemon, int64_t timeout_ms, struct conn *conn);

/* Calls slots_progress() a little later. */
void daemon_retry_soon(struct daemon *daemon);

/* There is something that may become idle. */
void daemon_watch_idle(struct daemon *daemon);

/* The set of servers has changed: the next daemon has to know of it, should this one die. */
void daemon_record_servers(struct daemon *daemon);

/* Looks whether a quit has come to its end; after each event that could be the last. */
void daemon_check_quit(struct daemon *daemon);

/* Whether a user may do everything: root and whoever runs the daemon. */
static inline bool daemon_trusts(const struct daemon *daemon, uid_t uid)
{
	return uid == 0 || uid == daemon->config.uid;
}

/* Whether to believe a server of this UID: an ordinary user can make that user's say anything. */
static inline bool daemon_trusts_server(const struct daemon *daemon, uid_t uid)
{
	const struct config *config = &daemon->config;

	return daemon_trusts(daemon, uid) || (config->is_multiuser && uid == config->server_uid);
}

/* Root's daemon serves everyone, another its own user. */
static inline bool daemon_serves_others(const struct daemon *daemon)
{
	return daemon->config.uid == 0;
}

/* Whether a user can have a server. */
static inline bool daemon_serves(const struct daemon *daemon, uid_t uid)
{
	return daemon_serves_others(daemon) || uid == daemon->config.uid;
}

#endif
