/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Places of server processes. Loop thread.
 *
 * Invariant: a process counts as a server exactly if it is in daemon::servers.
 */

#include "place.h"

#include "server.h"
#include "server_watch.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"

static void count_server(const struct slot *slot, int by)
{
	const struct tenant *tenant = slot->tenant;
	struct daemon *daemon = tenant->daemon;

	daemon->n_servers += (unsigned)by;
	slot->account->n_servers += (unsigned)by;
	if (!daemon_trusts(daemon, tenant->uid))
		daemon->n_guest_servers += (unsigned)by;
}

/* A new process is the successor of the slot's server, also one of an earlier daemon. */
static void link_successor(struct server *server, struct server *successor)
{
	/* A slot has two processes at most; a third one of an earlier daemon ends by itself. */
	if (server->successor)
		return;
	server->successor = successor;
	successor->predecessor = server;
	/* An earlier daemon may have ordered them to move the clients. */
	server->restart = RESTART_MOVES;
}

/* The process is the slot's server, or its successor. */
static void enlist(struct server *server)
{
	struct slot *slot = server->slot;

	count_server(slot, 1);
	list_add_tail(&server->daemon->servers, &server->link_in_daemon);
	if (slot->server)
		link_successor(slot->server, server);
	else
		slot->server = server;
}

static void enlist_spare(struct server *spare, struct server *server)
{
	spare->is_spare = true;
	spare->spare_of = server;
	server->spare = spare;
	list_add_tail(&server->daemon->spares, &spare->link_in_daemon);
}

void place_take(struct server *server, struct server *spare_of)
{
	server->slot->n_processes++;
	if (spare_of)
		enlist_spare(server, spare_of);
	else
		enlist(server);
}

void place_use_spare(struct server *server)
{
	struct server *spare = server->spare;

	server->spare = spare->spare_of = NULL;
	spare->is_spare = false;
	list_remove(&spare->link_in_daemon);
	enlist(spare);
	/* It is recorded before it can have clients. */
	server_watch_start(spare);
}

/* A spare that ends by itself has failed; one whose server ends is not needed (spares_look()). */
static void unlink_spares(struct server *server)
{
	if (server->spare_of)
		server->spare_of->spare = NULL;
	if (server->spare_of && !server->is_asked)
		server->spare_of->spare_ms = uv_now(&server->daemon->loop);
	if (server->spare) {
		server->spare->spare_of = NULL;
		daemon_want(server->daemon, WANT_SPARES);
	}
	server->spare = server->spare_of = NULL;
}

void place_leave(struct server *server)
{
	if (!server->is_spare)
		count_server(server->slot, -1);
	unlink_spares(server);
	server->slot->n_processes--;
	list_remove(&server->link_in_daemon);
}
