/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of connections. Loop thread.
 *
 * Invariant: a connection of a server, or one that is on its way to a server,
 * is never closed here.
 */

#include <sys/resource.h>

#include "admission.h"
#include "cuda.h"
#include "daemon.h"
#include "allowances.h"
#include "conn.h"
#include "tenant.h"

unsigned admission_guests_max(unsigned servers_max)
{
	rlim_t reserved = RESERVED_FDS + (rlim_t)servers_max * SERVER_FDS;
	struct rlimit limit;
	rlim_t left;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		limit.rlim_cur = 1024;
	left = limit.rlim_cur - MIN(reserved, limit.rlim_cur / 2);
	/* A quarter stays for users who are trusted. */
	return (unsigned)MIN(left - left / 4, (rlim_t)GUEST_PEERS_MAX);
}

/* Of what is worth less, first: silence, then commands, then clients. Negative: never. */
static int worth(const struct peer *peer)
{
	switch (peer->kind) {
	case PEER_STRANGER:
	case PEER_QUEUED:
		return 0;
	case PEER_COMMANDER:
		return peer->is_waiting ? 3 : 1;
	case PEER_CLIENT:
		return 2;
	default:
		return -1;
	}
}

/* The oldest of what is worth least. */
static struct peer *find_least(const struct tenant *tenant)
{
	struct peer *least = NULL;

	list_for_each (item, &tenant->peers) {
		struct peer *peer = container_of(item, struct peer, link);

		if (worth(peer) >= 0 && (!least || worth(peer) < worth(least)))
			least = peer;
	}
	return least;
}

static struct tenant *find_greediest(const struct daemon *daemon)
{
	struct tenant *greediest = NULL;

	list_for_each (item, &daemon->tenants) {
		struct tenant *tenant = container_of(item, struct tenant, link);

		if (!daemon_trusts(daemon, tenant->uid) &&
			(!greediest || tenant->n_peers > greediest->n_peers) && find_least(tenant))
			greediest = tenant;
	}
	return greediest;
}

static void close_one(struct daemon *daemon)
{
	struct tenant *tenant = find_greediest(daemon);
	struct peer *peer = tenant ? find_least(tenant) : NULL;

	if (!peer)
		return;
	if (peer->kind == PEER_CLIENT) {
		peer_refuse(peer, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"The MPS daemon has %u connections, and more it cannot have; your UID, %u, "
			"has the most",
			daemon->n_guest_peers, tenant->uid);
		return;
	}
	peer_log(peer,
		"All users have %u connections together, one too many: one of user %u's %u is "
		"closed",
		daemon->n_guest_peers, tenant->uid, tenant->n_peers);
	peer_close(peer);
}

/* Of those that have said nothing the oldest, if they are too many. */
static struct peer *find_surplus(const struct tenant *tenant)
{
	struct peer *oldest = NULL;
	unsigned n = 0;

	list_for_each (item, &tenant->peers) {
		struct peer *peer = container_of(item, struct peer, link);

		if (peer->kind != PEER_STRANGER)
			continue;
		if (!oldest)
			oldest = peer;
		n++;
	}
	return n > STRANGERS_MAX ? oldest : NULL;
}

void admission_check(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;
	struct peer *surplus = find_surplus(tenant);

	if (surplus) {
		peer_log(surplus,
			"User %u has more than %d connections that say nothing: the oldest is "
			"closed",
			tenant->uid, STRANGERS_MAX);
		peer_close(surplus);
	}
	if (daemon->n_guest_peers > daemon->guest_peers_max)
		close_one(daemon);
}

static unsigned count_kind(const struct tenant *tenant, enum peer_kind kind)
{
	unsigned n = 0;

	list_for_each (item, &tenant->peers)
		n += container_of(item, struct peer, link)->kind == kind;
	return n;
}

bool admission_allows_commander(const struct tenant *tenant)
{
	unsigned n_max =
		daemon_trusts(tenant->daemon, tenant->uid) ? COMMANDERS_MAX : GUEST_COMMANDERS_MAX;

	return count_kind(tenant, PEER_COMMANDER) < n_max;
}

bool admission_allows_queued(const struct tenant *tenant)
{
	return count_kind(tenant, PEER_QUEUED) < COMMANDERS_QUEUED_MAX;
}
