/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Upgrades of servers. Loop thread.
 *
 * Invariant: one server at a time is upgraded, and each attempt is later than the one before.
 */

#include "upgrade.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/successor.h"

/*
 * The clients wait while the work of one of them ends. Nobody has asked for this restart, so the
 * time is shorter than that of the command.
 */
#define WORK_MS 5000

/* From one attempt to the next: at first, at most, and if the client that stayed has ended. */
#define PAUSE_MS 60000
#define PAUSE_DOUBLINGS 6
#define PAUSE_ENDED_MS 10000

bool upgrade_is_wanted(const struct server *server)
{
	const uint64_t build = server->daemon->server_build;

	return !server->is_child && server->build != 0 && build != 0 && server->build != build;
}

static uint64_t pause_ms(const struct server *server)
{
	if (server->n_upgrades == 0)
		return 0;
	if (server->stayed > 0 && clients_count_process(server, server->stayed) == 0)
		return PAUSE_ENDED_MS;
	return (uint64_t)PAUSE_MS << MIN(server->n_upgrades - 1, PAUSE_DOUBLINGS);
}

static bool is_due(const struct server *server)
{
	return server->daemon->config.moves_on_upgrade && upgrade_is_wanted(server) &&
	       server_is_ready(server) && server->slot->server == server &&
	       uv_now(&server->daemon->loop) - server->upgrade_ms >= pause_ms(server);
}

static void upgrade(struct server *server)
{
	struct log_files *logs = &server->daemon->logs;
	struct error_message error;

	if (server->n_upgrades == 0)
		log_control(logs, "The clients of server %d move to a server of build %016" PRIx64,
			server->pid, server->daemon->server_build);
	server->n_upgrades++;
	server->upgrade_ms = uv_now(&server->daemon->loop);
	if (successor_start(server, WORK_MS, false, &error) == 0)
		return;
	if (strcmp(error.text, server->keeps.text) != 0)
		log_control(logs, "%s", error.text);
	server->keeps = error;
}

void upgrade_note(struct server *server)
{
	struct daemon *daemon = server->daemon;

	if (upgrade_is_wanted(server))
		log_control(&daemon->logs,
			"Server %d of user %u is of build %016" PRIx64 ", and %016" PRIx64
			" is installed%s",
			server->pid, server->tenant->uid, server->build, daemon->server_build,
			daemon->config.moves_on_upgrade
				? ""
				: ": restart_server moves its clients (MPS_MOVE_ON_UPGRADE)");
}

void upgrades_look(struct daemon *daemon)
{
	struct server *next = NULL;

	if (daemon->is_quitting)
		return;
	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		if (upgrade_is_wanted(server) && server->successor)
			return;
		if (is_due(server) && (!next || server->upgrade_ms < next->upgrade_ms))
			next = server;
	}
	if (next)
		upgrade(next);
}
