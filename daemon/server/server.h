/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_H
#define SERVER_H

/*
 * One mps-server process as the daemon sees it: its state, its connection, its
 * clients, its output.
 *
 * Loop thread. It lives from fork (or adoption) until the process has ended or
 * cannot be killed; then the slot is informed, and the handles close. Its
 * frames are checked as strictly as a client's.
 */

#include <sys/types.h>
#include <uv.h>

#include "frame.h"
#include "daemon/text/error_message.h"
#include "daemon/text/line_buffer.h"
#include "daemon/text/list.h"
#include "daemon/config/devices.h"
#include "daemon/config/settings.h"
#include "daemon/state/fault.h"
#include "daemon/state/groups.h"
#include "daemon/state/record.h"

struct conn;
struct daemon;
struct slot;
struct tenant;

/* How far restart_server is. */
enum restart_state {
	RESTART_NONE,
	RESTART_STARTS, /* the successor starts */
	RESTART_MOVES,  /* both were ordered: the clients are with one of them */
};

struct server {
	struct list link_in_daemon; /* in the order of their starts */
	struct slot *slot;          /* not owned; NULL after its end */
	struct tenant *tenant;      /* the slot's */
	struct daemon *daemon;
	pid_t pid;
	uint64_t start_time; /* process_start_time() */
	uint64_t build;      /* of its program, as it says (build_id.h); 0: not known */
	unsigned grace_ms;   /* its MPS_GRACE_MS */
	int pidfd;
	int output; /* the pipe of its output; negative: an adopted one has none yet */
	bool is_child;
	bool was_active;
	bool had_fault;          /* it ends because of a client's fault */
	bool has_lost_link;      /* its connection has broken, which is in the log */
	enum server_state state; /* SERVER_STOPPING once it was asked to end */
	bool is_asked;           /* to end, by this daemon */
	bool is_forced;
	bool is_reporting;         /* it has connected, and introduces its clients */
	bool knows_clients;        /* this daemon has handed over, or been told of, all of them */
	unsigned n_shutdowns_sent; /* 1: it was sent the polite shutdown, 2: the forced one */
	unsigned n_kills;          /* signals sent after its deadline */
	const char *overdue;       /* what the deadline is for; NULL: there is none */
	uint64_t deadline_ms;      /* by the loop's clock */
	const char *held_overdue;  /* the same before a signal stopped it: ... */
	uint64_t held_ms;          /* ... what was left of the time */
	struct conn *conn;         /* not owned; NULL while it has no connection */
	struct devices devices;    /* that it has reported */
	struct settings default_commands; /* the daemon's when the server started */
	struct settings commands;         /* of the operator about this server */
	struct settings wish;             /* commands of its user about it */
	struct list group_shares;
	struct list clients;
	uint64_t fault;           /* serial of its fault, or 0 (faults.h) */
	uint64_t fault_ms;        /* when it reported FAULT, by the loop's clock */
	bool has_faulting_client; /* the client that caused the fault is known */
	bool has_address_fault;   /* its fault is one with an address, of which the kernel tells */
	struct fault_address fault_address;
	bool is_counting;   /* it has to report its clients' counters */
	bool is_count_sent; /* ... and was asked for them */
	/* As it has reported, with the counters: bytes of evicted memory, and how many there may
	 * be. */
	uint64_t store_used, store_limit;
	struct list terminations; /* commands that wait for the end of a client's work */
	struct server *successor, *predecessor; /* while its clients move: see successor.h */
	enum restart_state restart;             /* of a server with a successor, as the next ones */
	bool restart_force;
	bool restart_rescues; /* ... that survive a fault */
	uint64_t restart_timeout_ms;
	bool is_spare;                   /* in daemon::spares, and not counted as a server */
	struct server *spare, *spare_of; /* see daemon/watch/spare.h; NULL: none */
	uint64_t spare_ms;          /* when its last spare failed, by the loop's clock; 0: never */
	struct list restarters;     /* the command that waits */
	pid_t stayed;               /* the client that could not move at the last attempt, or 0 */
	struct error_message keeps; /* why the clients stayed then; "": there was no attempt */
	unsigned n_upgrades;        /* attempts to upgrade it (upgrade.h), ... */
	uint64_t upgrade_ms;        /* ... the last one at that time of the loop's clock */
	bool is_exit_held; /* its process has ended, and its successor has not said more yet */
	unsigned n_clients;
	uint64_t idle_ms; /* since when it has no clients, by the loop's clock */
	struct line_buffer line_buffer;
	char last_line[160];
	struct error_message error; /* why the daemon ended it, if it did */
	uv_poll_t exit_poll, output_poll;
	uv_timer_t timer;
	struct conn *in_flight; /* clients.c: not owned; the client being handed over, or NULL */
	uint64_t in_flight_id;
	uint64_t in_flight_ms;     /* since when, by the loop's clock */
	uv_timer_t handover_timer; /* checks whether it has arrived */
	uint64_t handover_check_ms;
	unsigned n_handles;
};

/* Starts the process for the slot. 0 or -errno with an error message. */
int server_start(struct slot *slot, struct error_message *error);

/* Starts a successor for a server, which stays its slot's. 0 or -errno with an error message. */
int server_start_successor(struct server *server, struct error_message *error);

/* Starts a spare for a server that has none. 0 or -errno with an error message. */
int server_start_spare(struct server *server, struct error_message *error);

/* Looks again whether the process has ended. */
void server_watch_exit(struct server *server);

/* Writes a line about the server to server.log, after the name of a named one. */
void server_log_line(struct server *server, const char *line);

/* Appends the server's output to server.log. False: the output has ended. */
bool server_read_output(struct server *server);

/* What counts for a client of that user in the server. */
struct settings server_settings(const struct server *server, uid_t uid);

/*
 * Adopts a server of the previous daemon's record, if that process is alive
 * and belongs to the slot's tenant. Sets the slot's server, which has some
 * time to connect.
 */
void server_adopt(struct slot *slot, const struct record *record);

/*
 * It has a connection now: sends an adopted one a pipe for its output, and gives it time to
 * become ready.
 */
void server_on_link(struct server *server);

/* Its connection has broken. A server connects again by itself. */
void server_on_link_lost(struct server *server);

/*
 * Forgets a server of the previous daemon that this one does not understand: its process
 * works for its clients until they end, and then ends by itself. The slot may start another.
 */
void server_release(struct server *server);

/* The server that has this PID, or NULL. */
struct server *server_find(const struct daemon *daemon, pid_t pid);

/* Whether clients can be handed over. */
bool server_is_ready(const struct server *server);

/* Whether it is ready and has no clients. */
bool server_is_idle(const struct server *server);

/* Ends it when it has been idle for too long. */
void server_check_idle(struct server *server);

/* Asks it to end when its clients have left, or (`force') now. The latter has a deadline. */
void server_shutdown(struct server *server, bool force);

/* Kills it, with the error message that clients get. */
void server_kill(struct server *server, const struct error_message *error);

/*
 * Checks whether it was stopped by a signal, or continues: a stopped server is
 * ended after a while.
 */
void server_check_stopped(struct server *server);

/*
 * Sets the deadline of the current state; `overdue' says what it is for. A
 * server that misses it is ended. There is one deadline at a time. After the
 * first signal only the next signal follows, whatever the server does.
 */
void server_set_deadline(struct server *server, uint64_t timeout_ms, const char *overdue);

/* Removes the deadline of the current state. */
void server_clear_deadline(struct server *server);

/* The time from fork to ACTIVE: less than WELCOME_MS, after which clients give up. */
#define SERVER_START_MS 50000

/* The time that a server has to end. */
uint64_t server_end_ms(const struct server *server);

/*
 * Sets a deadline if it is to end and has no clients to wait for; called after
 * each change of that.
 */
void server_bound_end(struct server *server);

/* What the next daemon has to know about it. */
struct record server_record(const struct server *server);

/* The name that get_server_status prints. */
const char *server_state_name(const struct server *server);

#endif
