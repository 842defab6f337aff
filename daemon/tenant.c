/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One UID and its server. Loop thread.
 *
 * Invariant: whoever waits here is told something: the server, or why there is
 * none, within WELCOME_MS.
 */

#include <stdio.h>
#include <string.h>

#include "clients.h"
#include "commander.h"
#include "cuda.h"
#include "daemon.h"
#include "allowances.h"
#include "link.h"
#include "peer.h"
#include "server.h"
#include "spec_hash.h"
#include "start.h"
#include "tenant.h"

/* Clients give up after WELCOME_MS; they should hear the reason before. */
#define PATIENCE_MS (WELCOME_MS - 2000)

static struct tenant **hash_slot(struct daemon *daemon, uid_t uid)
{
	return &daemon->tenants_by_uid[uid % ARRAY_SIZE(daemon->tenants_by_uid)];
}

struct tenant *tenant_find(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = *hash_slot(daemon, uid);

	while (tenant && tenant->uid != uid)
		tenant = tenant->next;
	return tenant;
}

/* Whether a new one would be the same. */
static bool is_whole(struct tenant *tenant)
{
	uint64_t now = uv_now(&tenant->daemon->loop);

	return bucket_left(&tenant->control_lines, now, CONTROL_LINES_MAX, CONTROL_LINES_PER_S) ==
		       CONTROL_LINES_MAX &&
	       bucket_left(&tenant->server_lines, now, SERVER_LINES_MAX, SERVER_LINES_PER_S) ==
		       SERVER_LINES_MAX &&
	       bucket_left(&tenant->starts, now, STARTS_MAX, STARTS_PER_S) == STARTS_MAX &&
	       start_count_restarts(tenant) == 0 && start_forgot_faults(tenant);
}

static void tenant_free(struct tenant *tenant)
{
	struct tenant **slot = hash_slot(tenant->daemon, tenant->uid);

	while (*slot != tenant)
		slot = &(*slot)->next;
	*slot = tenant->next;
	list_remove(&tenant->link);
	tenant->daemon->n_tenants--;
	free(tenant);
}

void tenants_sweep(struct daemon *daemon)
{
	list_for_each_safe (item, following, &daemon->tenants) {
		struct tenant *tenant = container_of(item, struct tenant, link);

		if (!tenant->server && tenant->n_peers == 0 &&
			(daemon->is_over || is_whole(tenant)))
			tenant_free(tenant);
	}
}

static struct tenant *tenant_new(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));
	struct tenant **slot = hash_slot(daemon, uid);

	if (!tenant)
		return NULL;
	tenant->daemon = daemon;
	tenant->uid = uid;
	list_init(&tenant->peers);
	list_init(&tenant->clients);
	list_init(&tenant->starters);
	list_add_tail(&daemon->tenants, &tenant->link);
	tenant->next = *slot;
	*slot = tenant;
	daemon->n_tenants++;
	daemon_watch_idle(daemon);
	return tenant;
}

struct tenant *tenant_get(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = tenant_find(daemon, uid);

	if (tenant)
		return tenant;
	if (daemon->n_tenants >= TENANTS_MAX)
		tenants_sweep(daemon);
	if (daemon->n_tenants >= TENANTS_MAX && !daemon_trusts(daemon, uid))
		return NULL;
	return tenant_new(daemon, uid);
}

/* ---- who waits */

static void resume_starters(struct tenant *tenant, const struct reason *reason)
{
	list_for_each_safe (item, following, &tenant->starters) {
		struct peer *peer = container_of(item, struct peer, wait);

		list_remove(&peer->wait);
		if (reason)
			commander_reply(peer, "%s", reason->text);
		commander_resume(peer);
	}
}

void tenant_refuse_all(struct tenant *tenant, uint32_t result, const struct reason *reason)
{
	list_for_each_safe (item, following, &tenant->clients)
		peer_refuse(container_of(item, struct peer, wait), result, "%s", reason->text);
	resume_starters(tenant, reason);
}

void tenant_on_client_deadline(struct peer *peer)
{
	const struct tenant *tenant = tenant_find(peer->daemon, peer->cred.uid);
	const struct server *server = tenant ? tenant->server : NULL;

	if (server && server->n_clients > 0)
		peer_refuse(peer, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"Server %d of UID %u is %s and takes nobody until its %u clients have left",
			server->pid, tenant->uid, server_state_name(server), server->n_clients);
	else
		peer_refuse(peer, CUDA_ERROR_MPS_SERVER_NOT_READY,
			"The server of UID %u was not ready within %d s: see %.150s/server.log",
			peer->cred.uid, PATIENCE_MS / 1000, peer->daemon->config.log_directory);
}

void tenant_on_starter_deadline(struct peer *peer)
{
	list_remove(&peer->wait);
	commander_reply(peer, "The server was not ready within %d s: see %s/server.log",
		PATIENCE_MS / 1000, peer->daemon->config.log_directory);
	commander_resume(peer);
}

static unsigned count_clients(const struct tenant *tenant)
{
	unsigned n = 0;

	list_for_each (item, &tenant->clients)
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
static bool has_too_many(const struct tenant *tenant, pid_t pid)
{
	unsigned n = tenant->server ? clients_count_of(tenant->server, pid) : 0;

	/* Of another PID namespace all are 0. */
	if (pid <= 0)
		return false;
	list_for_each (item, &tenant->clients)
		n += container_of(item, struct peer, wait)->cred.pid == pid;
	return n >= PROCESS_SESSIONS_MAX;
}

/* Waits, or is told that there is nothing to wait for. */
static void queue_client(struct tenant *tenant, struct peer *peer)
{
	if (tenant->daemon->is_quitting) {
		peer_refuse(peer, CUDA_ERROR_MPS_CONNECTION_FAILED,
			"The MPS daemon is being stopped: start it again");
		return;
	}
	if (count_clients(tenant) >= SESSIONS_MAX) {
		refuse_for_good(peer, -EUSERS);
		return;
	}
	peer_become(peer, PEER_CLIENT);
	peer_set_deadline(peer, PATIENCE_MS);
	list_add_tail(&tenant->clients, &peer->wait);
}

void tenant_take_back(struct tenant *tenant, struct peer *peer)
{
	peer_log(peer, "Client %d of user %u had not reached its server: it waits for the next one",
		peer->cred.pid, peer->cred.uid);
	queue_client(tenant, peer);
}

void tenant_add_client(struct tenant *tenant, struct peer *peer)
{
	bool is_ready = tenant->server && server_is_ready(tenant->server);
	uint64_t wait_ms;

	if (!tenant->has_gid) {
		tenant->gid = peer->cred.gid;
		tenant->has_gid = true;
	}
	peer_log(peer, "NEW CLIENT %d from user %u: %s", peer->cred.pid, peer->cred.uid,
		is_ready ? "Server already exists"
			 : "Server is not ready, push client to pending list");
	wait_ms = start_wait_ms(tenant, peer->in.hello.program);
	if (wait_ms > 0)
		peer_log(peer,
			"Client %d of user %u waits %llu ms: its program has caused GPU faults",
			peer->cred.pid, peer->cred.uid, (unsigned long long)wait_ms);
	if (has_too_many(tenant, peer->cred.pid)) {
		refuse_for_good(peer, -EAGAIN);
		return;
	}
	queue_client(tenant, peer);
	tenant_progress(tenant);
}

void tenant_add_starter(struct tenant *tenant, struct peer *peer)
{
	list_add_tail(&tenant->starters, &peer->wait);
	peer_set_deadline(peer, PATIENCE_MS);
	tenant_progress(tenant);
}

/* ---- its server */

bool tenant_is_waiting(const struct tenant *tenant)
{
	return !list_empty(&tenant->clients) || !list_empty(&tenant->starters);
}

static void hand_over(struct tenant *tenant)
{
	list_for_each_safe (item, following, &tenant->clients) {
		struct peer *peer = container_of(item, struct peer, wait);
		int r;

		if (start_wait_ms(tenant, peer->in.hello.program) > 0) {
			daemon_retry_soon(tenant->daemon);
			continue;
		}
		r = clients_hand_over(tenant->server, peer);
		if (r == -EAGAIN)
			return;
		if (r < 0)
			refuse_for_good(peer, r);
	}
}

void tenant_progress(struct tenant *tenant)
{
	if (!tenant->server) {
		if (tenant_is_waiting(tenant) && !tenant->daemon->is_quitting)
			start_server_for(tenant);
		return;
	}
	if (tenant->server->state == SERVER_ACTIVE && !list_empty(&tenant->starters)) {
		/* It was wanted without clients: its time without begins now. */
		tenant->server->idle_ms = uv_now(&tenant->daemon->loop);
		resume_starters(tenant, NULL);
	}
	if (server_is_ready(tenant->server))
		hand_over(tenant);
}

void tenants_progress(struct daemon *daemon)
{
	list_for_each_safe (item, following, &daemon->tenants)
		tenant_progress(container_of(item, struct tenant, link));
}

void tenant_on_server_end(struct tenant *tenant, bool is_clean, const struct reason *reason)
{
	tenant->server = NULL;
	tenant->has_failed = !is_clean;
	tenant->reason = *reason;
	/* There may be room for another user's server, too. */
	tenants_progress(tenant->daemon);
	daemon_check_quit(tenant->daemon);
}

/* A server that is refused leaves when its clients have left. */
static void turn_away(struct peer *peer, const char *why)
{
	struct frame_shutdown shutdown = {0};

	peer_log(peer, "Server %d of user %u is refused: %s", peer->cred.pid, peer->cred.uid, why);
	frame_init(&shutdown, FRAME_SHUTDOWN, 0);
	(void)peer_send(peer, &shutdown, -EBADF);
	peer_close(peer);
}

void tenant_on_foreign_server(struct peer *peer, uint32_t version, uint64_t spec_hash)
{
	struct tenant *tenant = tenant_find(peer->daemon, peer->cred.uid);
	struct server *server = tenant ? tenant->server : NULL;
	struct reason reason;

	reason_set(&reason, 0,
		"mps-server has version %u (spec %016llx), mps-control version %d (spec %016llx): "
		"install both from the same build",
		version, (unsigned long long)spec_hash, FRAME_VERSION, SPEC_HASH);
	peer_log(peer, "Server %d of user %u is refused: %s", peer->cred.pid, peer->cred.uid,
		reason.text);
	peer_close(peer);
	if (server && server->is_child && server->pid == peer->cred.pid && !server->link)
		server_kill(server, &reason);
}

void tenant_add_server(struct tenant *tenant, struct peer *peer)
{
	struct server *server = tenant->server;

	if (!server || server->pid != peer->cred.pid)
		turn_away(peer, "this daemon has not started it, nor has the one before");
	else if (server->link)
		turn_away(peer, "it has a connection already");
	else
		link_open(server, peer);
}
