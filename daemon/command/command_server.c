/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about servers and the daemon itself. Loop thread.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "daemon/text/escape.h"
#include "daemon/text/json.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* A larger value would overflow a timer; this is eleven days. */
#define TIMEOUT_S_MAX 1000000

/* How many clients the note of quit names, and how much of their programs' names it has. */
#define NAMED_MAX 8
#define PROGRAM_TEXT 48

static void list_servers_as_json(struct conn *conn)
{
	const struct daemon *daemon = conn->daemon;
	json_t *servers = json_array();

	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		char name[SERVER_NAME_MAX];

		slot_name(server->slot, name);
		json_add(&servers,
			json_pack("{s:o s:s s:o s:s s:o s:o}", "pid", json_integer(server->pid),
				"name", name, "uid", json_integer(server->tenant->uid), "state",
				server_state_name(server), "clients",
				json_integer(server->n_clients), "spare",
				server->spare ? json_integer(server->spare->pid) : json_null()));
	}
	scope_reply_json(conn, json_pack("{s:o}", "servers", servers));
}

void command_get_server_list(struct conn *conn, const struct tokens *tokens)
{
	const struct daemon *daemon = conn->daemon;

	if (tokens->n == 2 && strcmp(tokens->item[1], "--json") != 0) {
		command_fail(
			conn, "Unknown option \"%s\": get_server_list [--json]", tokens->item[1]);
		return;
	}
	if (tokens->n == 2) {
		list_servers_as_json(conn);
		return;
	}
	list_each (struct server, server, &daemon->servers, link_in_daemon)
		command_reply(conn, "%d", server->pid);
}

void command_get_server_status(struct conn *conn, const struct tokens *tokens)
{
	const struct server *server =
		scope_find_server(conn, tokens->item[0], tokens->item[1], false);

	if (server)
		command_reply(conn, "%s", server_state_name(server));
}

/* Whether that user can have a server; false: the connection is answered. */
static bool check_server_user(struct conn *conn, uid_t uid)
{
	const struct daemon *daemon = conn->daemon;
	struct error_message error;

	if (!daemon_serves(daemon, uid))
		return command_fail(conn,
			"The daemon runs as UID %u and serves that user only: start it as root to "
			"serve UID %u too",
			daemon->config.uid, (unsigned)uid);
	if (!daemon->is_quitting)
		return true;
	daemon_say_quitting(daemon, &error);
	return command_fail(conn, "%s", error.text);
}

void command_start_server(struct conn *conn, const struct tokens *tokens)
{
	struct slot *slot;
	uint64_t uid;

	if (tokens->n < 3 || strcmp(tokens->item[1], "-uid") != 0) {
		command_fail(conn, "A user id (UID) is required to start a new server");
		return;
	}
	/* The highest value is not a UID: it means "no change" to setuid(). */
	if (parse_number(tokens->item[2], UINT32_MAX - 1, &uid) < 0) {
		command_fail(conn,
			"\"%s\" is not a user id (UID), which must be a number: A user id (UID) is "
			"required to start a new server",
			tokens->item[2]);
		return;
	}
	if (!scope_permits(conn, tokens->item[0], (uid_t)uid) ||
		!check_server_user(conn, (uid_t)uid))
		return;
	slot = slot_shared(conn->daemon, (uid_t)uid);
	if (!slot) {
		command_fail(conn, "The daemon is out of memory");
		return;
	}
	slot_add_starter(slot, conn);
}

void command_shutdown_server(struct conn *conn, const struct tokens *tokens)
{
	bool force = tokens->n == 3;
	struct server *server;

	if (force && strcmp(tokens->item[2], "-f") != 0) {
		command_fail(
			conn, "Unknown option \"%s\": shutdown_server PID [-f]", tokens->item[2]);
		return;
	}
	server = scope_find_server(conn, tokens->item[0], tokens->item[1], true);
	if (server)
		server_shutdown(server, force);
}

/* False: the connection is answered. Negative: no bound. */
static bool parse_quit_timeout(struct conn *conn, const struct tokens *tokens, int64_t *ret_s)
{
	uint64_t seconds;

	*ret_s = -1;
	if (tokens->n == 1)
		return true;
	if (tokens->n == 2 || strcmp(tokens->item[1], "-t") != 0)
		return command_fail(conn, "Usage: quit [-t SECONDS]");
	if (parse_number(tokens->item[2], TIMEOUT_S_MAX, &seconds) < 0)
		return command_fail(conn, "\"%s\" is not a number of seconds from 0 to %d",
			tokens->item[2], TIMEOUT_S_MAX);
	*ret_s = (int64_t)seconds;
	return true;
}

/* " PID (PROGRAM)" for the first clients; returns how many there are. */
static unsigned name_clients(const struct daemon *daemon, char *text, size_t size)
{
	unsigned n = 0;
	size_t used = 0;

	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link) {
			const char *slash = strrchr(client->command, '/');
			char program[PROGRAM_TEXT];

			if (n++ >= NAMED_MAX)
				continue;
			escape_word(slash ? slash + 1 : client->command, program, sizeof(program));
			used += (size_t)snprintf(text + used, size - used, "%s%d (%s)",
				n > 1 ? ", " : "", client->pid, program);
		}
	if (n > NAMED_MAX)
		snprintf(text + used, size - used, " and %u more (mps-control ps)", n - NAMED_MAX);
	return n;
}

/* For whom quit still waits. The wait goes on without the front end, as with NVIDIA's daemon. */
static void note_clients(struct conn *conn)
{
	char clients[NAMED_MAX * (PROGRAM_TEXT + 16) + 64];
	unsigned n = name_clients(conn->daemon, clients, sizeof(clients));

	if (n == 0)
		return;
	command_note(conn,
		"quit waits for %u client%s to end: %s; Ctrl-C ends the wait, but not the quit; "
		"mps-control quit -t 0 ends their work now",
		n, n > 1 ? "s" : "", clients);
	command_reply_flush(conn);
}

/* A client that has just exited is told to the daemon within this time: quit does not name it. */
#define QUIT_NOTE_MS 500

static const struct pending pending_quit = {.on_deadline = note_clients};

void command_quit(struct conn *conn, const struct tokens *tokens)
{
	struct daemon *daemon = conn->daemon;
	int64_t timeout_s;

	if (!parse_quit_timeout(conn, tokens, &timeout_s) ||
		!scope_permits_config(conn, tokens->item[0]))
		return;
	if (timeout_s >= 0)
		log_control(&daemon->logs, "quit command issued with timeout of %lld",
			(long long)timeout_s);
	/* The servers bound the wait. */
	pending_begin(conn, &pending_quit, timeout_s != 0 ? QUIT_NOTE_MS : 0);
	list_add_tail(&daemon->quit_conns, &conn->wait);
	daemon_want_quit(daemon, timeout_s < 0 ? -1 : timeout_s * 1000);
}

void command_log_level(struct conn *conn, const struct tokens *tokens)
{
	struct log_files *logs = &conn->daemon->logs;

	if (tokens->n == 1) {
		command_reply(conn, "%s", logs->is_verbose ? "debug" : "info");
		return;
	}
	if (strcmp(tokens->item[1], "info") != 0 && strcmp(tokens->item[1], "debug") != 0) {
		command_fail(conn, "\"%s\" is not a log level: use info or debug", tokens->item[1]);
		return;
	}
	if (scope_permits_config(conn, tokens->item[0]))
		logs->is_verbose = strcmp(tokens->item[1], "debug") == 0;
}
