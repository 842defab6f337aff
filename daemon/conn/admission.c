/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of connections. Loop thread.
 *
 * Invariant: this file never closes the connection of a server, or one that is
 * being handed to a server.
 */

#include "admission.h"

#include <sys/resource.h>

#include "conn.h"
#include "cuda.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/eviction.h"
#include "daemon/state/tenant.h"

unsigned admission_guests_max(unsigned servers_max)
{
	rlim_t reserved = RESERVED_FDS + (rlim_t)servers_max * SERVER_FDS;
	struct rlimit limit;
	rlim_t left;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		limit.rlim_cur = 1024;
	left = limit.rlim_cur - MIN(reserved, limit.rlim_cur / 2);
	/* A quarter stays for trusted users. */
	return (unsigned)MIN(left - left / 4, (rlim_t)GUEST_CONNS_MAX);
}

static enum eviction_merit merit_of(const struct conn *conn)
{
	return conn->ops->merit ? conn->ops->merit(conn) : MERIT_NEVER;
}

static struct eviction_candidate candidate_of(const struct conn *conn)
{
	return (struct eviction_candidate){
		.merit = merit_of(conn),
		.n_conns = conn->tenant->account->n_conns,
		.number = conn->number,
	};
}

/* The tenant's least important connection, if that goes before `least' (or NULL). */
static struct conn *find_least(const struct tenant *tenant, struct conn *least)
{
	list_each (struct conn, conn, &tenant->conns, link) {
		struct eviction_candidate candidate = candidate_of(conn), other;

		if (candidate.merit == MERIT_NEVER)
			continue;
		if (least)
			other = candidate_of(least);
		if (!least || eviction_precedes(&candidate, &other))
			least = conn;
	}
	return least;
}

static struct conn *find_evictable(const struct daemon *daemon)
{
	struct conn *least = NULL;

	list_each (const struct tenant, tenant, &daemon->tenants, link)
		if (!daemon_trusts(daemon, tenant->uid))
			least = find_least(tenant, least);
	return least;
}

static void evict_conn(struct daemon *daemon)
{
	struct conn *conn = find_evictable(daemon);
	const struct account *account = conn ? conn->tenant->account : NULL;

	if (!conn)
		return;
	if (conn->kind == CONN_CLIENT) {
		conn_refuse(conn, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The MPS daemon has too many connections (%u), %u of them of UID %u and "
			"its subordinate UIDs",
			daemon->n_guest_conns, account->n_conns, account->uid);
		return;
	}
	conn_log(conn,
		"All users together have %u connections, one more than the limit: closing one of "
		"user %u (of account %u, which has %u)",
		daemon->n_guest_conns, conn->cred.uid, account->uid, account->n_conns);
	conn_close(conn);
}

static bool is_conn_new(const struct conn *conn)
{
	return conn->kind == CONN_NEW;
}

void admission_check(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;
	const struct account *account = tenant->account;
	struct conn *surplus = NULL;

	if (account->n_conns_of[CONN_NEW] > STRANGERS_MAX)
		surplus = account_find_oldest_conn(account, is_conn_new);
	if (surplus) {
		conn_log(surplus,
			"Account %u has more than %d silent connections: closing the oldest",
			account->uid, STRANGERS_MAX);
		conn_close(surplus);
	}
	if (daemon->n_guest_conns > daemon->guest_conns_max)
		evict_conn(daemon);
}

bool admission_allows_command_conn(const struct daemon *daemon, const struct account *account)
{
	unsigned n_max =
		daemon_trusts(daemon, account->uid) ? COMMAND_CONNS_MAX : GUEST_COMMAND_CONNS_MAX;

	return account->n_conns_of[CONN_COMMAND] < n_max;
}

bool admission_allows_queued(const struct account *account)
{
	return account->n_conns_of[CONN_QUEUED] < QUEUED_COMMAND_CONNS_MAX;
}
