/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts of servers. Loop thread.
 *
 * Invariant: a delayed start is tried again by itself, and the connections
 * that wait for it have their own deadlines.
 */

#include "start.h"

#include "server.h"
#include "turns.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"

/* Seconds until a restart expires and another one is possible. */
static unsigned restart_wait_s(const struct slot *slot)
{
	uint64_t passed = uv_now(&slot->tenant->daemon->loop) - slot->restarts_ms[0];

	return (unsigned)((RESTARTS_WINDOW_MS - passed) / 1000 + 1);
}

/* The pause before a restart: a server that fails at once does not use them up at once. */
static bool is_restart_due(const struct slot *slot)
{
	uint64_t now = uv_now(&slot->tenant->daemon->loop);

	if (slot->n_restarts == 0)
		return true;
	return now - slot->restarts_ms[slot->n_restarts - 1] >= (uint64_t)RESTART_PAUSE_MS
									<< (slot->n_restarts - 1);
}

/* A start after a failure is a restart, and restarts are limited. */
static int check_restarts(struct slot *slot, struct error_message *error)
{
	if (!slot->has_failed)
		return 0;
	if (slot_count_restarts(slot) < RESTARTS_MAX) {
		if (is_restart_due(slot))
			return 0;
		daemon_want_later(slot->tenant->daemon, WANT_PROGRESS);
		return START_LATER;
	}
	return error_message_set(error, START_FAILED,
		"The server of UID %u was restarted %d times within %d s: wait %u s and start the "
		"program again. %s",
		slot->tenant->uid, RESTARTS_MAX, RESTARTS_WINDOW_MS / 1000, restart_wait_s(slot),
		slot->error.text);
}

/* ---- number and rate of servers */

/* The guest's server that has been idle for longest, of one account or (NULL) of all. */
static struct server *find_idle_server(const struct daemon *daemon, const struct account *account)
{
	struct server *found = NULL;

	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		if (daemon_trusts(daemon, server->tenant->uid) || slot_is_waiting(server->slot) ||
			*server->slot->name || !server_is_idle(server) ||
			(account && server->slot->account != account))
			continue;
		if (!found || server->idle_ms < found->idle_ms)
			found = server;
	}
	return found;
}

static int refuse_for_server_limit(const struct slot *slot, struct error_message *error)
{
	return error_message_set(error, START_REFUSED,
		"The MPS daemon has %u servers with clients, which is the maximum: wait until "
		"programs of other users have ended, or set MPS_SERVERS_MAX in the daemon's "
		"environment",
		slot->tenant->daemon->n_servers);
}

static int refuse_for_server_share(const struct slot *slot, struct error_message *error)
{
	return error_message_set(error, START_REFUSED,
		"UID %u with its subordinate UIDs has %u servers with clients, and may have no "
		"more than it leaves to other users: wait until some of its programs have ended, "
		"or set MPS_SERVERS_MAX in the daemon's environment",
		slot->account->uid, slot->account->n_servers);
}

/* The servers that all guests may have. If only one server is allowed, it is not reserved. */
static unsigned guest_servers_max(const struct daemon *daemon)
{
	unsigned n_max = daemon->config.servers_max;

	return n_max > 1 ? n_max - RESERVED_SERVERS : n_max;
}

static bool is_below_server_limit(const struct slot *slot)
{
	const struct daemon *daemon = slot->tenant->daemon;

	if (daemon_trusts(daemon, slot->tenant->uid))
		return daemon->n_servers < daemon->config.servers_max;
	return daemon->n_guest_servers < guest_servers_max(daemon);
}

static bool is_below_server_share(const struct slot *slot)
{
	const struct daemon *daemon = slot->tenant->daemon;

	return daemon_trusts(daemon, slot->tenant->uid) ||
	       account_may_take(slot->account->n_servers, daemon->n_guest_servers,
		       guest_servers_max(daemon));
}

/* Whether a server of its own (`n_own' is 1) or of others, once stopped, makes room for it. */
static bool may_replace(const struct slot *slot, unsigned n_own)
{
	const struct daemon *daemon = slot->tenant->daemon;

	return daemon_trusts(daemon, slot->tenant->uid) ||
	       account_may_take(slot->account->n_servers - n_own, daemon->n_guest_servers - 1,
		       guest_servers_max(daemon));
}

/* Whether a server is about to end, in whose place it may start. */
static bool is_server_ending(const struct slot *slot)
{
	const struct daemon *daemon = slot->tenant->daemon;
	bool may_be_any = !is_below_server_limit(slot) && may_replace(slot, 0);

	list_each (const struct server, server, &daemon->servers, link_in_daemon) {
		bool is_own = server->slot->account == slot->account && may_replace(slot, 1);

		if (server->state == SERVER_STOPPING && server->n_clients == 0 &&
			(may_be_any || is_own))
			return true;
	}
	return false;
}

/* The idle server whose place it may have; NULL: there is none. */
static struct server *find_replaceable(const struct slot *slot)
{
	const struct daemon *daemon = slot->tenant->daemon;

	if (!is_below_server_limit(slot) && may_replace(slot, 0))
		return find_idle_server(daemon, NULL);
	if (slot->account->n_servers > 0 && may_replace(slot, 1))
		return find_idle_server(daemon, slot->account);
	return NULL;
}

/* At a limit of servers an idle one is stopped if possible, and has to end first. */
static int reclaim_server(const struct slot *slot, struct error_message *error)
{
	struct daemon *daemon = slot->tenant->daemon;
	struct server *idle;

	if (is_below_server_limit(slot) && is_below_server_share(slot))
		return 0;
	if (is_server_ending(slot))
		return START_LATER;
	idle = find_replaceable(slot);
	if (!idle)
		return is_below_server_share(slot) || slot->account->n_servers == 0
			       ? refuse_for_server_limit(slot, error)
			       : refuse_for_server_share(slot, error);
	log_control(&daemon->logs,
		"Server %d of user %u has no clients and is stopped to start one for user %u",
		idle->pid, idle->tenant->uid, slot->tenant->uid);
	server_shutdown(idle, false);
	return START_LATER;
}

static int check_start_rate(const struct slot *slot)
{
	struct daemon *daemon = slot->tenant->daemon;
	struct account *account = slot->account;
	uint64_t now = uv_now(&daemon->loop);

	if (daemon_trusts(daemon, slot->tenant->uid))
		return 0;
	if (rate_limit_left(&account->starts, now, STARTS_MAX, STARTS_PER_S) == 0 ||
		rate_limit_left(&daemon->guest_starts, now, ALL_STARTS_MAX, ALL_STARTS_PER_S) ==
			0) {
		daemon_want_later(daemon, WANT_PROGRESS);
		return START_LATER;
	}
	rate_limit_take(&account->starts, now, STARTS_MAX, STARTS_PER_S);
	rate_limit_take(&daemon->guest_starts, now, ALL_STARTS_MAX, ALL_STARTS_PER_S);
	account_note_start(account);
	return 0;
}

int start_server_for(struct slot *slot, struct error_message *error)
{
	struct daemon *daemon = slot->tenant->daemon;
	int r = check_restarts(slot, error);

	if (r == 0 && !turns_allow(slot))
		r = START_LATER;
	if (r == 0)
		r = reclaim_server(slot, error);
	if (r == 0)
		r = check_start_rate(slot);
	if (r != 0)
		return r;
	if (slot->has_failed)
		slot->restarts_ms[slot->n_restarts++] = uv_now(&daemon->loop);
	if (server_start(slot, error) == 0)
		return 0;
	log_control(&daemon->logs, "No server for user %u: %s", slot->tenant->uid, error->text);
	return START_FAILED;
}
