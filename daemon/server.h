/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_H
#define SERVER_H

/*
 * One mps-server process as the daemon sees it: its life, its connection, the
 * clients it has, what it writes.
 *
 * Loop thread. It lives from fork (or adoption) until the process has ended or
 * cannot be killed; then the slot is told, and the rest closes by itself.
 * What it says is checked as a client's words are.
 */

#include <sys/types.h>
#include <uv.h>

#include "devices.h"
#include "frame.h"
#include "groups.h"
#include "line_buffer.h"
#include "list.h"
#include "error_message.h"
#include "record.h"
#include "settings.h"

struct conn;
struct slot;
struct tenant;

struct server {
	struct list link_in_daemon; /* in the order of their starts */
	struct slot *slot;          /* not owned; NULL after its end */
	struct tenant *tenant;      /* the slot's */
	struct daemon *daemon;
	pid_t pid;
	uint64_t start_time; /* process_start_time() */
	int pidfd;
	int output; /* the pipe of its lines; negative: an adopted one has none yet */
	bool is_child;
	bool was_active;
	bool had_fault;          /* it ends, and that is a client's doing */
	enum server_state state; /* SERVER_STOPPING as soon as we have asked for it */
	bool is_asked;           /* to end, by us */
	bool is_forced;
	unsigned n_shutdowns_sent; /* shutdowns it was sent: 1 the polite one, 2 the forced one */
	unsigned n_kills;          /* signals it got after its time was up */
	const char *overdue;       /* what it had time for, in words */
	struct conn *conn;         /* not owned; NULL while it has no connection */
	struct devices devices;    /* that it has told of */
	struct settings settings;
	struct sent_groups sent_groups; /* on this link */
	struct list clients;
	uint64_t fault;           /* serial of its fault, or 0 (faults.h) */
	bool has_faulting_client; /* whose fault it was is known */
	bool is_address_sent;     /* the server knows where its fault was, or that nobody knows */
	struct list terminations; /* commands that wait for the end of a client's work */
	unsigned n_clients;
	uint64_t idle_ms; /* since when it has no clients, by the loop's clock */
	struct line_buffer line_buffer;
	char last_line[160];
	struct error_message error; /* why we ended it, if we did */
	uv_poll_t exit_poll, output_poll;
	uv_timer_t timer;
	struct conn *in_flight; /* clients.c: not owned; a client on its way, or NULL */
	uint64_t in_flight_id;
	uint64_t in_flight_ms;     /* since when, by the loop's clock */
	uv_timer_t handover_timer; /* looks whether it has arrived */
	uint64_t handover_check_ms;
	unsigned n_handles;
};

/* Starts the process for the slot. 0 or -errno with a reason. */
int server_start(struct slot *slot, struct error_message *error);

/*
 * Takes in a server that stands in the record of the daemon before, if that
 * process lives and is the slot's tenant's. Sets the slot's server; it has some
 * time to connect.
 */
void server_adopt(struct slot *slot, const struct record *record);

/* An adopted server has connected: it gets a pipe for its lines, and time to become ready. */
void server_on_adopted_link(struct server *server);

/* The server that has this PID, or NULL. */
struct server *server_find(const struct daemon *daemon, pid_t pid);

/* Whether clients can be handed over. */
bool server_is_ready(const struct server *server);

/* Whether it serves nobody, but could. */
bool server_is_idle(const struct server *server);

/* Ends it when it has been idle for too long. */
void server_check_idle(struct server *server);

/* Asks it to end when its clients have left, or (`force') now. Bounded in the latter case. */
void server_shutdown(struct server *server, bool force);

/* Ends it at once, with the reason that clients are told. */
void server_kill(struct server *server, const struct error_message *error);

/* Whether it was stopped, or goes on: one that stands still is ended after a while. */
void server_check_stopped(struct server *server);

/*
 * It has this much time for something, said in words; then it is ended. The
 * state's own deadline, of which there is one at a time. After the first
 * signal only the next one is waited for, whatever the server does.
 */
void server_set_deadline(struct server *server, uint64_t timeout_ms, const char *overdue);

/* From fork to ACTIVE: less than the clients' own patience, which is WELCOME_MS. */
#define SERVER_START_MS 50000

/* What a server gets that has to end. */
uint64_t server_end_ms(const struct server *server);

/* Bounds its end if it is to end and nobody is left to wait for; after each change of that. */
void server_bound_end(struct server *server);

/* What the next daemon has to know of it. */
struct record server_record(const struct server *server);

/* The name that get_server_status prints. */
const char *server_state_name(const struct server *server);

#endif
