/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The commands suspend_client and resume_client. Loop thread.
 */

#include <string.h>

#include "commands.h"
#include "daemon/text/tokenize.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/watch/suspension.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* How long suspend_client waits for the clients' work: by default, and at most. */
#define WAIT_S 10
#define WAIT_S_MAX 3600

/* False: the connection is answered. */
static bool find_process(struct conn *conn, const struct tokens *tokens, struct client_set *set)
{
	uint64_t pid;

	/* A client in a PID namespace that the daemon cannot see has the PID 0. */
	if (parse_number(tokens->item[1], INT32_MAX, &pid) < 0 || pid == 0)
		return command_fail(conn, "Client %s not found", tokens->item[1]);
	*set = (struct client_set){.kind = CLIENTS_OF_PROCESS, .number = (uint32_t)pid};
	return true;
}

static bool find_group(struct conn *conn, const struct tokens *tokens, struct client_set *set)
{
	const struct group *group = scope_find_group(conn, tokens->item[2]);
	uid_t owner;

	if (!group)
		return false;
	*set = (struct client_set){.kind = CLIENTS_OF_GROUP, .number = group->id};
	owner = group->has_uid ? group->uid : conn->daemon->config.uid;
	return scope_permits(conn, tokens->item[0], owner);
}

static bool find_user(struct conn *conn, const struct tokens *tokens, struct client_set *set)
{
	uint64_t uid;

	if (parse_number(tokens->item[2], UINT32_MAX - 1, &uid) < 0)
		return command_fail(
			conn, "\"%s\" is not a user id (UID), which is a number", tokens->item[2]);
	*set = (struct client_set){.kind = CLIENTS_OF_USER, .number = (uint32_t)uid};
	return scope_permits(conn, tokens->item[0], (uid_t)uid);
}

/* Reads which clients the command is about; `ret_next' is the token after them. */
static bool find_set(
	struct conn *conn, const struct tokens *tokens, struct client_set *set, size_t *ret_next)
{
	bool is_group = strcmp(tokens->item[1], "-group") == 0;

	if (!is_group && strcmp(tokens->item[1], "-uid") != 0) {
		*ret_next = 2;
		return find_process(conn, tokens, set);
	}
	*ret_next = 3;
	if (tokens->n < 3)
		return command_fail(
			conn, is_group ? "-group needs a group name" : "-uid needs a UID");
	return is_group ? find_group(conn, tokens, set) : find_user(conn, tokens, set);
}

/* Whether there are such clients, and the user may do it to all of them. */
static bool check_clients(
	struct conn *conn, const struct tokens *tokens, const struct client_set *set)
{
	bool is_any = false;

	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link) {
			if (!suspension_concerns(set, client))
				continue;
			is_any = true;
			if (conn->cred.uid != server->tenant->uid &&
				!scope_permits(conn, tokens->item[0], client->uid))
				return false;
		}
	if (is_any)
		return true;
	if (set->kind == CLIENTS_OF_PROCESS)
		return command_fail(conn, "Client %s not found", tokens->item[1]);
	return command_fail(conn, "%s %s has no client",
		set->kind == CLIENTS_OF_GROUP ? "Group" : "User", tokens->item[2]);
}

/* [-t SECONDS], from the token `next' on. */
static bool read_wait(
	struct conn *conn, const struct tokens *tokens, size_t next, uint64_t *ret_seconds)
{
	*ret_seconds = WAIT_S;
	if (tokens->n == next)
		return true;
	if (tokens->n != next + 2 || strcmp(tokens->item[next], "-t") != 0)
		return command_fail(
			conn, "Usage: suspend_client CLIENT_PID|-group NAME|-uid UID [-t SECONDS]");
	if (parse_number(tokens->item[next + 1], WAIT_S_MAX, ret_seconds) < 0 || *ret_seconds == 0)
		return command_fail(conn, "\"%s\" is not a number of seconds from 1 to %d",
			tokens->item[next + 1], WAIT_S_MAX);
	return true;
}

void command_suspend_client(struct conn *conn, const struct tokens *tokens)
{
	struct client_set set = {0};
	uint64_t seconds;
	size_t next;

	if (find_set(conn, tokens, &set, &next) && read_wait(conn, tokens, next, &seconds) &&
		check_clients(conn, tokens, &set))
		suspension_begin(conn, &set, true, seconds * 1000);
}

void command_resume_client(struct conn *conn, const struct tokens *tokens)
{
	struct client_set set = {0};
	size_t next;

	if (!find_set(conn, tokens, &set, &next))
		return;
	if (tokens->n != next)
		command_fail(conn, "Usage: resume_client CLIENT_PID|-group NAME|-uid UID");
	else if (check_clients(conn, tokens, &set))
		suspension_begin(conn, &set, false, 0);
}
