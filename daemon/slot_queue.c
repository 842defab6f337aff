/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Those who wait for the server of a slot. Loop thread.
 *
 * Invariant: whoever waits here is told something: the server, why there is
 * none, or that it is another user's turn, within WELCOME_MS.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "allowances.h"
#include "clients.h"
#include "command_conn.h"
#include "cuda.h"
#include "daemon.h"
#include "conn.h"
#include "quarantine.h"
#include "quote.h"
#include "server.h"
#include "start.h"
#include "tenant.h"
#include "turns.h"

/* Clients give up after WELCOME_MS; they should hear the reason before. */
#define PATIENCE_MS (WELCOME_MS - 2000)

static void resume_starters(struct slot *slot, const struct reason *reason)
{
	list_for_each_safe (item, following, &slot->starters) {
		struct peer *peer = container_of(item, struct peer, wait);

		list_remove(&peer->wait);
		if (reason)
			commander_fail(peer, "%s", reason->text);
		commander_resume(peer);
	}
}

void slot_refuse_all(struct slot *slot, uint32_t result, const struct reason *reason)
{
	list_for_each_safe (item, following, &slot->clients)
		peer_refuse(container_of(item, struct peer, wait), result, "%s", reason->text);
	resume_starters(slot, reason);
}

/* The client goes on waiting, for WELCOME_MS from now on. */
_printf_(2, 3) static void tell_pending(struct peer *peer, const char *format, ...)
{
	struct frame_pending pending = {0};
	va_list args;

	frame_init(&pending, FRAME_PENDING, 0);
	va_start(args, format);
	vsnprintf(pending.text, sizeof(pending.text), format, args);
	va_end(args);
	if (peer_send(peer, &pending, -EBADF) < 0)
		peer_close(peer);
	else
		peer_set_deadline(peer, PATIENCE_MS);
}

/* It is another server's turn, but that of this client comes. */
static void tell_turn(struct peer *peer, const struct server *before)
{
	tell_pending(peer,
		"server %d of UID %u has the GPU alone (compute mode EXCLUSIVE_PROCESS) and ends "
		"when its %u clients have left",
		before->pid, before->tenant->uid, before->n_clients);
}

void slot_on_turn(struct slot *slot)
{
	list_for_each_safe (item, following, &slot->clients)
		tell_pending(container_of(item, struct peer, wait), "it starts");
}

static void tell_turns_of(struct slot *slot)
{
	const struct server *before = turns_before(slot);

	list_for_each_safe (item, following, &slot->clients)
		if (before)
			tell_turn(container_of(item, struct peer, wait), before);
}

void slots_tell_turns(struct daemon *daemon)
{
	list_for_each (item, &daemon->tenants) {
		struct tenant *tenant = container_of(item, struct tenant, link);

		list_for_each (each, &tenant->slots)
			tell_turns_of(container_of(each, struct slot, link));
	}
}

void slot_on_client_deadline(struct peer *peer)
{
	const struct server *server = peer->slot->server, *before = turns_before(peer->slot);

	if (before)
		tell_turn(peer, before);
	else if (server && server->n_clients > 0)
		peer_refuse(peer, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"Server %d of UID %u is %s and takes nobody until its %u clients have left",
			server->pid, server->tenant->uid, server_state_name(server),
			server->n_clients);
	else
		peer_refuse(peer, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"The server of UID %u was not ready within %d s: see %.150s/server.log",
			peer->slot->tenant->uid, PATIENCE_MS / 1000,
			peer->daemon->config.log_directory);
}

void slot_on_starter_deadline(struct peer *peer)
{
	const struct server *before = turns_before(peer->slot);

	list_remove(&peer->wait);
	if (before)
		commander_fail(peer,
			"Server %d of UID %u has the GPU alone (compute mode EXCLUSIVE_PROCESS): "
			"wait until its %u clients have left",
			before->pid, before->tenant->uid, before->n_clients);
	else
		commander_fail(peer, "The server was not ready within %d s: see %s/server.log",
			PATIENCE_MS / 1000, peer->daemon->config.log_directory);
	commander_resume(peer);
}

static unsigned count_clients(const struct slot *slot)
{
	unsigned n = 0;

	list_for_each (item, &slot->clients)
		n++;
	return n;
}

/* 808 is what the vendor's clients know for too many. */
static void refuse_for_good(struct peer *peer, int r)
{
	if (r == -EUSERS)
		peer_refuse(peer, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The server of UID %u has %d clients, and more it cannot have",
			peer->cred.uid, SESSIONS_MAX);
	else if (r == -EDQUOT)
		peer_refuse(peer, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The servers of the MPS daemon have %u clients, and more they cannot have: "
			"wait until other programs have ended",
			peer->daemon->n_sessions);
	else if (r == -EAGAIN)
		peer_refuse(peer, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"Process %d is a client %d times already: a program is one once",
			peer->cred.pid, PROCESS_SESSIONS_MAX);
	else
		peer_refuse(peer, CUDA_ERROR_MPS_CONNECTION_FAILED,
			"The connection could not be handed to the server: %s", strerror(-r));
}

/* A process that opens connection after connection leaves no room for others of its user. */
static bool has_too_many(const struct slot *slot, pid_t pid)
{
	unsigned n = slot->server ? clients_count_of(slot->server, pid) : 0;

	/* Of another PID namespace all are 0. */
	if (pid <= 0)
		return false;
	list_for_each (item, &slot->clients)
		n += container_of(item, struct peer, wait)->cred.pid == pid;
	return n >= PROCESS_SESSIONS_MAX;
}

static void join_queue(struct slot *slot, struct list *queue, struct peer *peer)
{
	peer->slot = slot;
	peer->queue_number = ++slot->tenant->daemon->n_queued;
	list_add_tail(queue, &peer->wait);
}

/* Waits, or is told that there is nothing to wait for. */
static void queue_client(struct slot *slot, struct peer *peer)
{
	if (slot->tenant->daemon->is_quitting) {
		peer_refuse(peer, CUDA_ERROR_MPS_CONNECTION_FAILED,
			"The MPS daemon is being stopped: start it again");
		return;
	}
	if (count_clients(slot) >= SESSIONS_MAX) {
		refuse_for_good(peer, -EUSERS);
		return;
	}
	peer_become(peer, PEER_CLIENT);
	peer_set_deadline(peer, PATIENCE_MS);
	join_queue(slot, &slot->clients, peer);
}

void slot_take_back(struct slot *slot, struct peer *peer)
{
	peer_log(peer, "Client %d of user %u had not reached its server: it waits for the next one",
		peer->cred.pid, peer->cred.uid);
	queue_client(slot, peer);
}

static void log_arrival(const struct slot *slot, struct peer *peer)
{
	bool is_ready = slot->server && server_is_ready(slot->server);
	uint64_t wait_ms = quarantine_wait_ms(peer->tenant, peer->in.hello.program);
	struct quoted command;

	peer_log(peer, "NEW CLIENT %d from user %u: %s", peer->cred.pid, peer->cred.uid,
		is_ready ? "Server already exists"
			 : "Server is not ready, push client to pending list");
	if (wait_ms > 0)
		peer_log(peer,
			"Client %d of user %u waits %llu ms: its program, %s, has caused GPU "
			"faults",
			peer->cred.pid, peer->cred.uid, (unsigned long long)wait_ms,
			quote(&command, peer->in.hello.command));
	if (slot->is_isolated)
		peer_log(peer, "Client %d of user %u gets a server of its own: %s", peer->cred.pid,
			peer->cred.uid,
			peer->in.hello.is_isolated ? "its environment says so (MPS_ISOLATE)"
						   : "its program is quarantined");
}

void slot_add_client(struct slot *slot, struct peer *peer)
{
	struct tenant *tenant = slot->tenant;
	const struct server *before;

	if (!tenant->has_gid && peer->tenant == tenant) {
		tenant->gid = peer->cred.gid;
		tenant->has_gid = true;
	}
	log_arrival(slot, peer);
	if (has_too_many(slot, peer->cred.pid)) {
		refuse_for_good(peer, -EAGAIN);
		return;
	}
	queue_client(slot, peer);
	slot_progress(slot);
	before = turns_before(slot);
	if (peer->kind == PEER_CLIENT && before)
		tell_turn(peer, before);
}

void slot_add_starter(struct slot *slot, struct peer *peer)
{
	join_queue(slot, &slot->starters, peer);
	peer_set_deadline(peer, PATIENCE_MS);
	slot_progress(slot);
}

/* ---- its server */

static void hand_over(struct slot *slot)
{
	list_for_each_safe (item, following, &slot->clients) {
		struct peer *peer = container_of(item, struct peer, wait);
		int r;

		if (quarantine_wait_ms(peer->tenant, peer->in.hello.program) > 0) {
			daemon_retry_soon(slot->tenant->daemon);
			continue;
		}
		r = clients_hand_over(slot->server, peer);
		if (r == -EAGAIN)
			return;
		if (r < 0)
			refuse_for_good(peer, r);
	}
}

void slot_progress(struct slot *slot)
{
	if (!slot->server) {
		if (slot_is_waiting(slot) && !slot->tenant->daemon->is_quitting)
			start_server_for(slot);
		return;
	}
	if (slot->server->state == SERVER_ACTIVE && !list_empty(&slot->starters)) {
		/* It was wanted without clients: its time without begins now. */
		slot->server->idle_ms = uv_now(&slot->tenant->daemon->loop);
		resume_starters(slot, NULL);
	}
	if (server_is_ready(slot->server))
		hand_over(slot);
}

void slots_progress(struct daemon *daemon)
{
	list_for_each_safe (item, following, &daemon->tenants) {
		struct tenant *tenant = container_of(item, struct tenant, link);

		list_for_each_safe (each, next, &tenant->slots)
			slot_progress(container_of(each, struct slot, link));
	}
}

void slot_on_server_end(struct slot *slot, bool is_clean, const struct reason *reason)
{
	struct daemon *daemon = slot->tenant->daemon;

	slot->server = NULL;
	slot->has_failed = !is_clean;
	slot->reason = *reason;
	/* There may be room for another server, too. */
	slots_progress(daemon);
	daemon_check_quit(daemon);
}
