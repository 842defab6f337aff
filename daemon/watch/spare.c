/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Spares. Loop thread.
 *
 * Invariant: a spare that is not needed has been told to end.
 */

#include "spare.h"

#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/server/server.h"

/* After the end of a spare, until the next one starts. */
#define PAUSE_MS 60000

/* Also while the server has lost its connection, or has a fault: then the spare is needed. */
static bool has_need(const struct server *server)
{
	return server->daemon->config.keeps_spares && !server->daemon->is_quitting &&
	       server->n_clients > 0 && server->slot->server == server &&
	       server->state != SERVER_STOPPING;
}

static void start(struct server *server)
{
	struct error_message error;

	if (server_start_spare(server, &error) < 0)
		log_control(&server->daemon->logs, "No spare for server %d: %s", server->pid,
			error.text);
}

void spares_look(struct daemon *daemon)
{
	uint64_t now = uv_now(&daemon->loop);

	list_each_safe (struct server, spare, &daemon->spares, link_in_daemon)
		if (!spare->spare_of || !has_need(spare->spare_of))
			server_shutdown(spare, true);
	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		if (!server->spare && has_need(server) && server_is_ready(server) &&
			(server->spare_ms == 0 || now - server->spare_ms >= PAUSE_MS))
			start(server);
}

void spares_end(struct daemon *daemon)
{
	list_each_safe (struct server, spare, &daemon->spares, link_in_daemon)
		server_shutdown(spare, true);
}
