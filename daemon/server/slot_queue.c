/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The connections that wait for the server of a slot. Loop thread.
 *
 * Invariant: each waiting connection gets an answer within WELCOME_MS: the
 * server, an error, or a notice that it is another user's turn.
 */

#include <string.h>

#include "clients.h"
#include "cuda.h"
#include "quote.h"
#include "server.h"
#include "start.h"
#include "turns.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"

/* Clients give up after WELCOME_MS; the refusal should reach them before. */
#define PATIENCE_MS (WELCOME_MS - 2000)

static void resume_starters(struct slot *slot, const struct error_message *error)
{
	list_each_safe (struct conn, conn, &slot->starters, wait) {
		list_remove(&conn->wait);
		if (error)
			pending_fail(conn, "%s", error->text);
		pending_end(conn);
	}
}

void slot_refuse_all(struct slot *slot, uint32_t result, const struct error_message *error)
{
	list_each_safe (struct conn, conn, &slot->clients, wait)
		conn_refuse(conn, result, "%s", error->text);
	resume_starters(slot, error);
}

/* The client continues to wait, for WELCOME_MS from now on. */
_printf_(2, 3) static void send_pending(struct conn *conn, const char *format, ...)
{
	struct frame_pending pending = {.head = frame_head(FRAME_PENDING, 0)};
	int r;

	format_arguments(pending.text, format);
	r = conn_send(conn, &pending, -EBADF);
	/* A client that reads too slowly has earlier notices to read, which do the same. */
	if (r < 0 && r != -EAGAIN)
		conn_close(conn);
	else
		conn_set_deadline(conn, PATIENCE_MS);
}

/* It is another server's turn; the client's turn comes later. */
static void notify_turn(struct conn *conn, const struct server *before)
{
	send_pending(conn,
		"server %d of UID %u has exclusive use of the GPU (compute mode EXCLUSIVE_PROCESS) "
		"and ends when its %u clients have exited",
		before->pid, before->tenant->uid, before->n_clients);
}

/* Its turn has come (turns.h): waiting clients get their whole patience for the start. */
static void announce_turn(struct slot *slot)
{
	list_each_safe (struct conn, conn, &slot->clients, wait)
		send_pending(conn, "the server starts");
}

static void notify_slot_turns(struct slot *slot)
{
	const struct server *before = turns_before(slot);

	list_each_safe (struct conn, conn, &slot->clients, wait)
		if (before)
			notify_turn(conn, before);
}

void slots_notify_turns(struct daemon *daemon)
{
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct slot, slot, &tenant->slots, link)
			notify_slot_turns(slot);
}

static void on_client_deadline(struct conn *conn)
{
	const struct server *server = conn->slot->server, *before = turns_before(conn->slot);

	if (before)
		notify_turn(conn, before);
	else if (server && server->n_clients > 0)
		conn_refuse(conn, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"Server %d of UID %u is %s and accepts no client until its %u clients have "
			"exited",
			server->pid, server->tenant->uid, server_state_name(server),
			server->n_clients);
	else
		conn_refuse(conn, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"The server of UID %u was not ready within %d s: see %.150s/server.log",
			conn->slot->tenant->uid, PATIENCE_MS / 1000,
			conn->daemon->config.log_directory);
}

/* Only its hang-up is watched: the client has left while it waited. */
static int client_events(_unused_ const struct conn *conn)
{
	return UV_DISCONNECT;
}

static void on_client_event(struct conn *conn, _unused_ int events)
{
	conn_close(conn);
}

static enum eviction_merit client_merit(_unused_ const struct conn *conn)
{
	return MERIT_WAITING;
}

static const struct conn_ops client_ops = {
	.events = client_events,
	.on_event = on_client_event,
	.on_deadline = on_client_deadline,
	.merit = client_merit,
};

static void on_starter_deadline(struct conn *conn)
{
	const struct server *before = turns_before(conn->slot);

	list_remove(&conn->wait);
	if (before)
		pending_fail(conn,
			"Server %d of UID %u has exclusive use of the GPU (compute mode "
			"EXCLUSIVE_PROCESS): wait until its %u clients have exited",
			before->pid, before->tenant->uid, before->n_clients);
	else
		pending_fail(conn, "The server was not ready within %d s: see %s/server.log",
			PATIENCE_MS / 1000, conn->daemon->config.log_directory);
	pending_end(conn);
}

static const struct pending pending_start = {.on_deadline = on_starter_deadline};

/*
 * Whether the slot is full of waiting clients. In the slot of all users an account has no more of
 * them than it leaves to others.
 */
static bool is_slot_full(const struct slot *slot, const struct account *account)
{
	unsigned n = 0, n_own = 0;

	list_each (struct conn, conn, &slot->clients, wait) {
		n++;
		n_own += conn->tenant->account == account;
	}
	return slot->tenant->daemon->config.is_multiuser ? !account_may_take(n_own, n, SESSIONS_MAX)
							 : n >= SESSIONS_MAX;
}

/* The vendor's clients expect 808 for too many clients. */
static void refuse_client(struct conn *conn, int r)
{
	if (r == -EUSERS)
		conn_refuse(conn, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The server of UID %u has %d clients, which is the maximum", conn->cred.uid,
			SESSIONS_MAX);
	else if (r == -EDQUOT)
		conn_refuse(conn, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The servers of the MPS daemon have %u clients, %u of them of UID %u with "
			"its subordinate UIDs, which may have no more than it leaves to other "
			"users: wait until programs have ended",
			conn->daemon->n_sessions, conn->tenant->account->n_sessions,
			conn->tenant->account->uid);
	else if (r == -EAGAIN)
		conn_refuse(conn, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"Process %d already has %d client connections: a program needs one",
			conn->cred.pid, PROCESS_SESSIONS_MAX);
	else
		conn_refuse(conn, CUDA_ERROR_MPS_CONNECTION_FAILED,
			"The connection could not be handed to the server: %s", strerror(-r));
}

/* Whether the process has its maximum of connections; other programs of its user need some. */
static bool has_max_process_sessions(const struct slot *slot, pid_t pid)
{
	unsigned n = slot->server ? clients_count_process(slot->server, pid) : 0;

	/* Processes of other PID namespaces all have PID 0. */
	if (pid <= 0)
		return false;
	list_each (struct conn, conn, &slot->clients, wait)
		n += conn->cred.pid == pid;
	return n >= PROCESS_SESSIONS_MAX;
}

static void join_queue(struct slot *slot, struct list *queue, struct conn *conn)
{
	conn->slot = slot;
	conn->queue_number = ++slot->tenant->daemon->n_queued;
	list_add_tail(queue, &conn->wait);
}

/* Queues the client, or refuses it if waiting is in vain. */
static void queue_client(struct slot *slot, struct conn *conn)
{
	struct error_message error;

	if (slot->tenant->daemon->is_quitting) {
		daemon_say_quitting(slot->tenant->daemon, &error);
		conn_refuse(conn, CUDA_ERROR_MPS_CONNECTION_FAILED, "%s", error.text);
		return;
	}
	if (is_slot_full(slot, conn->tenant->account)) {
		refuse_client(conn, -EUSERS);
		return;
	}
	conn_become(conn, CONN_CLIENT, &client_ops);
	conn_set_deadline(conn, PATIENCE_MS);
	join_queue(slot, &slot->clients, conn);
}

void slot_requeue(struct slot *slot, struct conn *conn)
{
	conn_log(conn, "Client %d of user %u did not reach its server: it waits for the next one",
		conn->cred.pid, conn->cred.uid);
	queue_client(slot, conn);
}

/* ---- its server */

static void hand_over_clients(struct slot *slot)
{
	list_each_safe (struct conn, conn, &slot->clients, wait) {
		int r;

		if (quarantine_wait_ms(conn->tenant, conn->in.hello.program) > 0) {
			daemon_want_later(slot->tenant->daemon, WANT_PROGRESS);
			continue;
		}
		r = clients_hand_over(slot->server, conn);
		if (r == -EAGAIN)
			return;
		if (r < 0)
			refuse_client(conn, r);
	}
}

static void start_server(struct slot *slot)
{
	struct error_message error;
	int r = start_server_for(slot, &error);

	if (r == 0 && slot->tenant->daemon->is_exclusive)
		announce_turn(slot);
	else if (r == START_REFUSED)
		slot_refuse_all(slot, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, &error);
	else if (r == START_FAILED)
		slot_refuse_all(slot, CUDA_ERROR_MPS_CONNECTION_FAILED, &error);
}

static void slot_progress(struct slot *slot)
{
	if (slot->is_hopeless)
		slot_refuse_all(slot, CUDA_ERROR_MPS_CONNECTION_FAILED, &slot->error);
	slot->is_hopeless = false;
	if (!slot->server) {
		if (slot_is_waiting(slot) && !slot->tenant->daemon->is_quitting)
			start_server(slot);
		return;
	}
	if (slot->server->state == SERVER_ACTIVE && !list_empty(&slot->starters)) {
		/* It was started without clients: its idle time begins now. */
		slot->server->idle_ms = uv_now(&slot->tenant->daemon->loop);
		resume_starters(slot, NULL);
	}
	if (server_is_ready(slot->server))
		hand_over_clients(slot);
}

/* ---- what comes */

static void log_probation(const struct slot *slot, struct conn *conn)
{
	uint32_t ms = quarantine_probation_ms(conn->tenant, conn->in.hello.program);
	struct quoted command;

	if (ms > 0 && !slot->is_isolated)
		conn_log(conn,
			"Client %d of user %u is on probation for %u s, because its program, %s, "
			"has "
			"caused a GPU fault",
			conn->cred.pid, conn->cred.uid, (ms + 999) / 1000,
			quote(&command, conn->in.hello.command));
}

static void log_new_client(const struct slot *slot, struct conn *conn)
{
	bool is_ready = slot->server && server_is_ready(slot->server);
	uint64_t wait_ms = quarantine_wait_ms(conn->tenant, conn->in.hello.program);
	struct quoted command;

	conn_log(conn, "NEW CLIENT %d from user %u: %s", conn->cred.pid, conn->cred.uid,
		is_ready ? "Server already exists"
			 : "Server is not ready, push client to pending list");
	if (wait_ms > 0)
		conn_log(conn,
			"Client %d of user %u waits %llu ms: its program, %s, has caused GPU "
			"faults",
			conn->cred.pid, conn->cred.uid, (unsigned long long)wait_ms,
			quote(&command, conn->in.hello.command));
	log_probation(slot, conn);
	if (slot->is_isolated)
		conn_log(conn, "Client %d of user %u gets a server of its own: %s", conn->cred.pid,
			conn->cred.uid,
			conn->in.hello.is_isolated ? "its environment sets MPS_ISOLATE"
						   : "its program is quarantined");
}

void slot_add_client(struct slot *slot, struct conn *conn)
{
	struct tenant *tenant = slot->tenant;
	const struct server *before;

	if (!tenant->has_gid && conn->tenant == tenant) {
		tenant->gid = conn->cred.gid;
		tenant->has_gid = true;
	}
	log_new_client(slot, conn);
	if (has_max_process_sessions(slot, conn->cred.pid)) {
		refuse_client(conn, -EAGAIN);
		return;
	}
	queue_client(slot, conn);
	slot_progress(slot);
	before = turns_before(slot);
	if (conn->kind == CONN_CLIENT && before)
		notify_turn(conn, before);
}

void slot_add_starter(struct slot *slot, struct conn *conn)
{
	join_queue(slot, &slot->starters, conn);
	pending_begin(conn, &pending_start, PATIENCE_MS);
	slot_progress(slot);
}

static void account_progress(struct account *account)
{
	list_each_safe (struct tenant, tenant, &account->tenants, link_in_account)
		list_each_safe (struct slot, slot, &tenant->slots, link)
			slot_progress(slot);
}

/* The account whose last start is the oldest comes first. */
void slots_progress(struct daemon *daemon)
{
	list_each_safe (struct account, account, &daemon->accounts.all, link)
		account_progress(account);
}
