/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands. Loop thread.
 *
 * Invariant: a command answers, or refuses, or says how it is written; none
 * ends the daemon but quit.
 */

#include <stdio.h>
#include <string.h>

#include "clients.h"
#include "command.h"
#include "command_fault.h"
#include "command_terminate.h"
#include "commander.h"
#include "daemon.h"
#include "peer.h"
#include "server.h"
#include "tenant.h"
#include "termination.h"
#include "words.h"

/* Beyond that a timer would overflow; it is eleven days. */
#define TIMEOUT_S_MAX 1000000

struct command {
	const char *name;
	const char *usage;   /* what follows the name */
	size_t n_min, n_max; /* words, the name included */
	void (*run)(struct peer *peer, const struct words *words);
};

/* ---- who may */

static void refuse(struct peer *peer, const char *name, uid_t owner)
{
	if (owner == 0)
		commander_fail(peer, "Operation not permitted: %s needs UID 0", name);
	else
		commander_fail(
			peer, "Operation not permitted: %s needs UID 0 or UID %u", name, owner);
	peer_log(peer, "That was process %d of user %u", peer->cred.pid, peer->cred.uid);
}

bool command_may(struct peer *peer, const char *name, uid_t owner)
{
	if (peer->cred.uid == owner || daemon_trusts(peer->daemon, peer->cred.uid))
		return true;
	refuse(peer, name, owner);
	return false;
}

/* The server that a word names, if the peer may command it; else NULL and it is answered. */
static struct server *find_server(struct peer *peer, const struct words *words)
{
	uint64_t pid = 0;

	if (parse_number(words->word[1], INT32_MAX, &pid) < 0) {
		commander_fail(peer, "Server %s not found", words->word[1]);
		return NULL;
	}
	list_for_each (item, &peer->daemon->servers) {
		struct server *server = container_of(item, struct server, link_in_daemon);

		if (server->pid == (pid_t)pid)
			return command_may(peer, words->word[0], server->tenant->uid) ? server
										      : NULL;
	}
	commander_fail(peer, "Server %d not found", (int)pid);
	return NULL;
}

/* ---- the commands */

static void get_server_list(struct peer *peer, _unused_ const struct words *words)
{
	list_for_each (item, &peer->daemon->servers)
		commander_reply(peer, "%d", container_of(item, struct server, link_in_daemon)->pid);
}

static void get_server_status(struct peer *peer, const struct words *words)
{
	const struct server *server = find_server(peer, words);

	if (server)
		commander_reply(peer, "%s", server_state_name(server));
}

static void get_client_list(struct peer *peer, const struct words *words)
{
	const struct server *server = find_server(peer, words);

	if (!server)
		return;
	list_for_each (item, &server->clients)
		commander_reply(peer, "%d", container_of(item, struct client, link)->pid);
}

static void start_server(struct peer *peer, const struct words *words)
{
	struct daemon *daemon = peer->daemon;
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
			"required "
			"to start a new server",
			words->word[2]);
		return;
	}
	if (!command_may(peer, words->word[0], (uid_t)uid))
		return;
	if (!daemon_serves(daemon, (uid_t)uid)) {
		commander_fail(peer,
			"The daemon runs as UID %u and serves that user only: start it as root to "
			"serve UID %u too",
			daemon->config.uid, (unsigned)uid);
		return;
	}
	if (daemon->is_quitting) {
		commander_fail(peer, "The daemon is being stopped: start it again");
		return;
	}
	slot = slot_shared(daemon, (uid_t)uid);
	if (!slot) {
		commander_fail(peer, "The daemon has no memory");
		return;
	}
	peer->is_waiting = true;
	slot_add_starter(slot, peer);
}

static void shutdown_server(struct peer *peer, const struct words *words)
{
	bool force = words->n == 3;
	struct server *server;

	if (force && strcmp(words->word[2], "-f") != 0) {
		commander_fail(
			peer, "Unknown option \"%s\": shutdown_server PID [-f]", words->word[2]);
		return;
	}
	server = find_server(peer, words);
	if (server)
		server_shutdown(server, force);
}

static void quit(struct peer *peer, const struct words *words)
{
	int64_t timeout_ms = -1;
	uint64_t seconds;

	if (words->n == 2 || (words->n == 3 && strcmp(words->word[1], "-t") != 0)) {
		commander_fail(peer, "Usage: quit [-t SECONDS]");
		return;
	}
	if (words->n == 3) {
		if (parse_number(words->word[2], TIMEOUT_S_MAX, &seconds) < 0) {
			commander_fail(peer, "\"%s\" is not a number of seconds from 0 to %d",
				words->word[2], TIMEOUT_S_MAX);
			return;
		}
		timeout_ms = (int64_t)seconds * 1000;
	}
	if (!command_may(peer, words->word[0], peer->daemon->config.uid))
		return;
	if (timeout_ms >= 0)
		journal_control(&peer->daemon->journal, "quit command issued with timeout of %llu",
			(unsigned long long)seconds);
	peer->is_waiting = true;
	daemon_quit(peer->daemon, timeout_ms, peer);
}

static const struct command commands[] = {
	{"get_server_list", "", 1, 1, get_server_list},
	{"get_server_status", " PID", 2, 2, get_server_status},
	{"get_client_list", " PID", 2, 2, get_client_list},
	{"start_server", " -uid UID", 1, 3, start_server},
	{"shutdown_server", " PID [-f]", 2, 3, shutdown_server},
	{"terminate_client", " SERVER_PID CLIENT_PID", 3, 3, command_terminate_client},
	{"get_last_fault", " [N] [--json]", 1, 3, command_get_last_fault},
	{"quit", " [-t SECONDS]", 1, 3, quit},
};

void command_run(struct peer *peer, char *line)
{
	struct words words;

	words_split(&words, line);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const struct command *command = &commands[i];

		if (strcmp(words.word[0], command->name) != 0)
			continue;
		if (words.n < command->n_min || words.n > command->n_max)
			commander_fail(peer, "Usage: %s%s", command->name, command->usage);
		else
			command->run(peer, &words);
		return;
	}
	commander_fail(peer, "Unknown command \"%s\"", words.word[0]);
}

void command_on_deadline(struct peer *peer)
{
	/* quit sets none: it is bounded by its servers. */
	if (peer->termination)
		termination_on_deadline(peer);
	else
		slot_on_starter_deadline(peer);
}
