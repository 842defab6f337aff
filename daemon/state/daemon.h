/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAEMON_H
#define DAEMON_H

/*
 * The state of the control daemon that all its files share. It has one thread,
 * the loop, which never blocks.
 */

#include <uv.h>

#include "account.h"
#include "fault.h"
#include "groups.h"
#include "manager.h"
#include "usage.h"
#include "daemon/text/line_limit.h"
#include "daemon/text/list.h"
#include "daemon/text/rate_limit.h"
#include "daemon/config/config.h"
#include "daemon/config/config_file.h"
#include "daemon/config/devices.h"
#include "daemon/config/settings.h"
#include "daemon/log/log_file.h"

struct conn_ops;
struct kernel_log;
struct listener;
struct exporter;
struct probe;
struct reload;
struct server_watch;
struct tenant;

/* Actions that wait for the end of a turn of the loop. daemon.c has their order. */
enum want {
	WANT_QUIT = 1 << 0,         /* begin the shutdown, or shorten it */
	WANT_PROBE = 1 << 1,        /* probe again for GPUs */
	WANT_PROGRESS = 1 << 2,     /* start servers, hand clients over, answer those that wait */
	WANT_TURN_NOTICES = 1 << 3, /* notify clients that now wait for their turn (turns.h) */
	WANT_RECORD = 1 << 4,       /* write the record of servers */
	WANT_UPGRADES = 1 << 5,     /* restart servers of an earlier build */
	WANT_SPARES = 1 << 6,       /* end spares that are not needed, and start others */
};

struct daemon {
	uv_loop_t loop;
	unsigned wants;       /* of enum want */
	unsigned wants_later; /* wanted when the retry timer runs out */
	uv_timer_t retry_timer;
	struct config config;
	struct config_file config_file;
	struct log_files logs;
	struct listener *listener;
	struct manager manager;
	struct list tenants; /* every known UID: struct tenant */
	struct tenant *tenants_by_uid[1024];
	struct accounts accounts;
	struct list servers;   /* in the order of their starts: struct server */
	struct list spares;    /* spare.h: struct server */
	struct list released;  /* servers of other versions: struct released (released.h) */
	uint64_t server_build; /* of the installed mps-server (build_id.h); 0: not known */
	unsigned n_tenants, n_servers, n_sessions;
	unsigned n_guest_servers, n_guest_conns, guest_conns_max; /* see allowances.h */
	struct rate_limit guest_starts;
	struct line_limit untenanted_lines; /* about connections without a tenant */
	uv_timer_t report_timer;            /* reports dropped lines (tenant_log.h) */
	uint64_t last_client_id;
	struct faults faults;
	struct kernel_log *kernel_log; /* NULL: it cannot be read */
	const struct conn_ops *new_conn_ops;
	const struct server_watch *const *server_watches; /* up to NULL */
	uint64_t n_accepted;                              /* counts connections */
	uint64_t n_queued; /* counts connections that have begun to wait in a slot */
	/* The layers of the defaults; [default] without what the environment sets. */
	struct settings environment, default_file, default_commands;
	struct groups groups;
	struct usages usages;
	bool is_memory_audited; /* memacct set audit_log=true */
	bool is_memacct_off;    /* feature disable memacct: soft limits do not count */
	bool is_socket_apart; /* programs that come by the daemon's socket have servers of their own
			       */
	bool is_applying;     /* the file of -a: all other commands wait */
	struct list applying; /* ... those that do */
	struct list counting; /* commands that wait for counters */
	struct list tracing;  /* ... for the end of traces */
	struct list suspensions;  /* ... for clients that servers suspend or resume */
	uint64_t last_suspension; /* serial of the last such command */
	struct list traces;       /* that run or were not read yet: struct trace */
	uint64_t last_trace_id;
	struct exporter *exporter;          /* NULL: the daemon does not listen for HTTP */
	struct devices devices;             /* of the last trusted server or probe */
	struct probe *probe;                /* NULL: none runs */
	struct error_message probe_failure; /* of the last one; "": it did not fail */
	uint64_t probe_failed_ms, probe_began_ms;
	uint64_t probe_began_number; /* n_queued when the probe began */
	bool is_exclusive;           /* servers take turns: see turns.h */
	bool is_record_due; /* the last attempt to write the record has failed, as the log says */
	struct reload *reload, *next_reload; /* the file is being read; requested meanwhile */
	uv_timer_t idle_timer;               /* checks for idle servers and tenants */
	uv_timer_t dmem_timer;               /* looks at limits of cgroups (cgroup_groups.h) */

	uint64_t start_time_ns; /* when the daemon was started, since 1970 */
	uint64_t start_ms;      /* the same, by the loop's clock */

	int64_t quit_timeout_ms; /* of WANT_QUIT; negative: never */
	bool is_quitting;
	bool is_forced;
	uint64_t force_ms;      /* when it will be forced, by the loop's clock; 0: never */
	bool is_over;           /* every server has ended; only the answers to quit remain */
	struct list partitions; /* of SMs, with -S: struct partition */
	struct list quit_conns; /* connections whose `quit' waits */
	uv_timer_t quit_timer;

	uv_signal_t signals[4];
};

/*
 * Accepts connections from now on. The configuration is loaded, the logs and
 * the listener are open. 0 or -errno with an error message.
 */
int daemon_start(struct daemon *daemon, struct error_message *error);

/* Returns when the daemon has ended: every server has ended and every handle is closed. */
void daemon_run(struct daemon *daemon);

/* Does what is wanted, and then one turn of the loop: for daemon_run() and tests. */
void daemon_turn(struct daemon *daemon, uv_run_mode mode);

/* Does that after this turn of the loop. */
static inline void daemon_want(struct daemon *daemon, enum want want)
{
	daemon->wants |= want;
}

/* Does that a little later, as it is not possible yet. */
static inline void daemon_want_later(struct daemon *daemon, enum want want)
{
	daemon->wants_later |= want;
}

/*
 * The shutdown begins after this turn of the loop. Servers end when their clients have left; after
 * `timeout_ms' they are forced to (0: now; negative: never). Connections in quit_conns are
 * answered at the end. A further call can only shorten the wait.
 */
static inline void daemon_want_quit(struct daemon *daemon, int64_t timeout_ms)
{
	bool is_shorter = timeout_ms >= 0 &&
			  (daemon->quit_timeout_ms < 0 || timeout_ms < daemon->quit_timeout_ms);

	if (!(daemon->wants & WANT_QUIT) || is_shorter)
		daemon->quit_timeout_ms = timeout_ms;
	daemon_want(daemon, WANT_QUIT);
}

/* The defaults that count, of all their layers. */
static inline struct settings default_settings(const struct daemon *daemon)
{
	const struct settings *const layers[LAYERS] = {
		[LAYER_ENVIRONMENT] = &daemon->environment,
		[LAYER_DEFAULT] = &daemon->default_file,
		[LAYER_DEFAULT_COMMAND] = &daemon->default_commands,
	};

	return settings_fold(layers, &daemon->devices);
}

/* Why no client gets a server any more: the daemon is quitting. */
static inline void daemon_say_quitting(const struct daemon *daemon, struct error_message *error)
{
	if (daemon->n_sessions > 0)
		error_message_set(error, 0,
			"The MPS daemon is quitting: start it again when its clients have ended "
			"(%u now)",
			daemon->n_sessions);
	else
		error_message_set(error, 0, "The MPS daemon is quitting: start it again");
}

/* Whether a user is trusted with everything: root and the daemon's own user. */
static inline bool daemon_trusts(const struct daemon *daemon, uid_t uid)
{
	return uid == 0 || uid == daemon->config.uid;
}

/* Whether to believe a server of this UID: an ordinary user can make its server send anything. */
static inline bool daemon_trusts_server(const struct daemon *daemon, uid_t uid)
{
	const struct config *config = &daemon->config;

	return daemon_trusts(daemon, uid) || (config->is_multiuser && uid == config->server_uid);
}

/* The daemon of root serves all users, another daemon only its own user. */
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
