/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns of servers on GPUs that admit one process. Loop thread.
 *
 * Invariant: of two servers that exclude each other the later one ends.
 */

#include "turns.h"

#include "cuda.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

static bool has_exclusive_device(const struct devices *devices)
{
	for (unsigned i = 0; i < devices->n; i++)
		if (devices->items[i].compute_mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
			return true;
	return false;
}

/* The first of the running servers. */
static struct server *first_server(const struct daemon *daemon)
{
	if (list_empty(&daemon->servers))
		return NULL;
	return container_of(daemon->servers.next, struct server, link_in_daemon);
}

const struct server *turns_before(const struct slot *slot)
{
	const struct daemon *daemon = slot->tenant->daemon;
	const struct server *first = daemon->is_exclusive ? first_server(daemon) : NULL;

	return first && (first->slot != slot || first->state == SERVER_STOPPING) ? first : NULL;
}

static uint64_t first_queue_number(const struct list *waiting)
{
	if (list_empty(waiting))
		return UINT64_MAX;
	return container_of(waiting->next, const struct conn, wait)->queue_number;
}

/* The queue number of the connection that has waited longest; UINT64_MAX if none waits. */
static uint64_t first_waiting(const struct slot *slot)
{
	return MIN(first_queue_number(&slot->clients), first_queue_number(&slot->starters));
}

/* The slot whose first waiting connection has waited longest. */
static const struct slot *next_slot(const struct daemon *daemon)
{
	const struct slot *next = NULL;

	list_each (const struct tenant, tenant, &daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (slot_is_waiting(slot) &&
				(!next || first_waiting(slot) < first_waiting(next)))
				next = slot;
	return next;
}

/* Ends the server after its clients, unless an earlier connection waits for it. */
static void yield_turn(struct server *server, const struct slot *next)
{
	if (!server->in_flight && first_waiting(server->slot) > first_waiting(next))
		server_shutdown(server, false);
}

bool turns_allow(struct slot *slot)
{
	struct daemon *daemon = slot->tenant->daemon;

	/*
	 * The running probe may find that the slot may not. Later probes are not waited for: a
	 * user's server can cause one after the other.
	 */
	if (daemon->probe && !list_empty(&daemon->servers) &&
		first_waiting(slot) > daemon->probe_began_number) {
		daemon_want_later(daemon, WANT_PROGRESS);
		return false;
	}
	if (!daemon->is_exclusive)
		return true;
	if (list_empty(&daemon->servers) && next_slot(daemon) == slot)
		return true;
	list_each (struct server, server, &daemon->servers, link_in_daemon)
		yield_turn(server, slot);
	daemon_want_later(daemon, WANT_PROGRESS);
	return false;
}

static void wait_for_turn(struct server *server, const struct server *first)
{
	log_control(&server->daemon->logs,
		"Server %d of user %u waits for its turn: a GPU is in compute mode "
		"EXCLUSIVE_PROCESS, and server %d of user %u has it",
		server->pid, server->tenant->uid, first->pid, first->tenant->uid);
	server_shutdown(server, false);
}

/* A successor, also a spare, opens no GPU before that server has ended. */
static bool is_for_place_of(const struct server *server, const struct server *first)
{
	return server->is_spare || (first && server->predecessor == first);
}

void turns_on_ready(struct server *server)
{
	struct daemon *daemon = server->daemon;
	const struct server *first = first_server(daemon);
	bool is_exclusive = has_exclusive_device(&server->devices);

	if (daemon_trusts_server(daemon, server->tenant->uid))
		daemon->is_exclusive = is_exclusive;
	/* The server itself reports that the first server excludes it, whatever a probe finds. */
	if ((is_exclusive || daemon->is_exclusive) && first != server &&
		!is_for_place_of(server, first))
		wait_for_turn(server, first);
	if (is_exclusive != daemon->is_exclusive)
		daemon_want(daemon, WANT_PROBE);
}

void turns_on_probe(struct daemon *daemon)
{
	const struct server *first = first_server(daemon);
	bool was_exclusive = daemon->is_exclusive;

	daemon->is_exclusive = has_exclusive_device(&daemon->devices);
	if (!daemon->is_exclusive || was_exclusive)
		return;
	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		if (server != first && server->state != SERVER_STOPPING &&
			!is_for_place_of(server, first))
			wait_for_turn(server, first);
	daemon_want(daemon, WANT_PROGRESS);
	daemon_want(daemon, WANT_TURN_NOTICES);
}
