/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about servers and the daemon itself. Loop thread.
 */

#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "commands.h"
#include "daemon.h"
#include "json.h"
#include "conn.h"
#include "server.h"
#include "slot.h"
#include "tenant.h"

/* Beyond that a timer would overflow; it is eleven days. */
#define TIMEOUT_S_MAX 1000000

static void list_as_json(struct peer *peer)
{
	const struct daemon *daemon = peer->daemon;
	struct json json = {0};

	json_open(&json, NULL, '{');
	json_open(&json, "servers", '[');
	list_for_each (item, &daemon->servers) {
		struct server *server = container_of(item, struct server, link_in_daemon);

		json_open(&json, NULL, '{');
		json_number(&json, "pid", server->pid);
		json_number(&json, "uid", server->tenant->uid);
		json_string(&json, "state", server_state_name(server));
		json_number(&json, "clients", server->n_clients);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	scope_reply_json(peer, &json);
}

void command_get_server_list(struct peer *peer, const struct words *words)
{
	const struct daemon *daemon = peer->daemon;

	if (words->n == 2 && strcmp(words->word[1], "--json") != 0) {
		commander_fail(
			peer, "Unknown option \"%s\": get_server_list [--json]", words->word[1]);
		return;
	}
	if (words->n == 2) {
		list_as_json(peer);
		return;
	}
	list_for_each (item, &daemon->servers)
		commander_reply(peer, "%d", container_of(item, struct server, link_in_daemon)->pid);
}

void command_get_server_status(struct peer *peer, const struct words *words)
{
	const struct server *server =
		scope_find_server(peer, words->word[0], words->word[1], false);

	if (server)
		commander_reply(peer, "%s", server_state_name(server));
}

/* Why that user can have no server; false: it is answered. */
static bool check_user(struct peer *peer, uid_t uid)
{
	const struct daemon *daemon = peer->daemon;

	if (!daemon_serves(daemon, uid)) {
		commander_fail(peer,
			"The daemon runs as UID %u and serves that user only: start it as root to "
			"serve UID %u too",
			daemon->config.uid, (unsigned)uid);
		return false;
	}
	if (daemon->is_quitting) {
		commander_fail(peer, "The daemon is being stopped: start it again");
		return false;
	}
	return true;
}

void command_start_server(struct peer *peer, const struct words *words)
{
	struct slot *slot;
	uint64_t uid;

	if (words->n < 3 || strcmp(words->word[1], "-uid") != 0) {
		commander_fail(peer, "A user id (UID) is required to start a new server");
		return;
	}
	/* The highest value is no UID but "no change" to setuid(). */
	if (parse_number(words->word[2], UINT32_MAX - 1, &uid) < 0) {
		commander_fail(peer,
			"\"%s\" is not a user id (UID), which is a number: A user id (UID) is "
			"required to start a new server",
			words->word[2]);
		return;
	}
	if (!scope_may(peer, words->word[0], (uid_t)uid) || !check_user(peer, (uid_t)uid))
		return;
	slot = slot_shared(peer->daemon, (uid_t)uid);
	if (!slot) {
		commander_fail(peer, "The daemon has no memory");
		return;
	}
	peer->is_waiting = true;
	slot_add_starter(slot, peer);
}

void command_shutdown_server(struct peer *peer, const struct words *words)
{
	bool force = words->n == 3;
	struct server *server;

	if (force && strcmp(words->word[2], "-f") != 0) {
		commander_fail(
			peer, "Unknown option \"%s\": shutdown_server PID [-f]", words->word[2]);
		return;
	}
	server = scope_find_server(peer, words->word[0], words->word[1], true);
	if (server)
		server_shutdown(server, force);
}

/* False: it is answered. Negative: it has no bound. */
static bool parse_timeout(struct peer *peer, const struct words *words, int64_t *ret_s)
{
	uint64_t seconds;

	*ret_s = -1;
	if (words->n == 1)
		return true;
	if (words->n == 2 || strcmp(words->word[1], "-t") != 0) {
		commander_fail(peer, "Usage: quit [-t SECONDS]");
		return false;
	}
	if (parse_number(words->word[2], TIMEOUT_S_MAX, &seconds) < 0) {
		commander_fail(peer, "\"%s\" is not a number of seconds from 0 to %d",
			words->word[2], TIMEOUT_S_MAX);
		return false;
	}
	*ret_s = (int64_t)seconds;
	return true;
}

void command_quit(struct peer *peer, const struct words *words)
{
	struct daemon *daemon = peer->daemon;
	int64_t timeout_s;

	if (!parse_timeout(peer, words, &timeout_s) || !scope_may_set(peer, words->word[0]))
		return;
	if (timeout_s >= 0)
		journal_control(&daemon->journal, "quit command issued with timeout of %lld",
			(long long)timeout_s);
	peer->is_waiting = true;
	daemon_quit(daemon, timeout_s < 0 ? -1 : timeout_s * 1000, peer);
}

void command_log_level(struct peer *peer, const struct words *words)
{
	struct journal *journal = &peer->daemon->journal;

	if (words->n == 1) {
		commander_reply(peer, "%s", journal->is_verbose ? "debug" : "info");
		return;
	}
	if (strcmp(words->word[1], "info") != 0 && strcmp(words->word[1], "debug") != 0) {
		commander_fail(
			peer, "\"%s\" is not a log level: it is info or debug", words->word[1]);
		return;
	}
	if (scope_may_set(peer, words->word[0]))
		journal->is_verbose = strcmp(words->word[1], "debug") == 0;
}
