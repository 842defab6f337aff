/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Targets of commands, and permission to give them. Loop thread.
 *
 * Invariant: a user other than root and the daemon's user neither sees nor
 * changes anything of another user.
 */

#include "command_scope.h"

#include <string.h>

#include "command_reply.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/server/server.h"
#include "daemon/server/state_text.h"

/* ---- permission */

static void scope_refuse(struct conn *conn, const char *command, uid_t owner)
{
	if (owner == 0)
		command_fail(conn, "Operation not permitted: %s needs UID 0", command);
	else
		command_fail(
			conn, "Operation not permitted: %s needs UID 0 or UID %u", command, owner);
	conn_log(conn, "The refused command came from process %d of user %u", conn->cred.pid,
		conn->cred.uid);
}

bool scope_permits(struct conn *conn, const char *command, uid_t owner)
{
	if (conn_owns(conn, owner) || conn_is_trusted(conn))
		return true;
	scope_refuse(conn, command, owner);
	return false;
}

bool scope_permits_config(struct conn *conn, const char *command)
{
	return scope_permits(conn, command, conn->daemon->config.uid);
}

/* ---- servers and groups */

struct server *scope_find_server(
	struct conn *conn, const char *command, const char *pid, bool is_to_change)
{
	struct server *server;
	uint64_t number;

	if (parse_number(pid, INT32_MAX, &number) < 0) {
		command_fail(conn, "Server %s not found", pid);
		return NULL;
	}
	server = server_find(conn->daemon, (pid_t)number);
	if (!server) {
		command_fail(conn, "Server %d not found", (int)number);
		return NULL;
	}
	/* The server of all users shows each user its own clients. */
	if (is_to_change || !conn->daemon->config.is_multiuser)
		return scope_permits(conn, command, server->tenant->uid) ? server : NULL;
	return server;
}

struct group *scope_find_group(struct conn *conn, const char *name)
{
	struct group *group = groups_find(&conn->daemon->groups, name);

	if (!group)
		command_fail(conn, "Group %s not found: create it with group create", name);
	return group;
}

static bool find_group_scope(
	struct conn *conn, const struct tokens *tokens, bool is_to_set, struct scope *ret)
{
	if (tokens->n < 3)
		return command_fail(conn, "-group needs a group name");
	if (is_to_set && !scope_permits_config(conn, tokens->item[0]))
		return false;
	ret->group = scope_find_group(conn, tokens->item[2]);
	if (!ret->group)
		return false;
	ret->layer = &ret->group->commands;
	ret->next = 3;
	return true;
}

/* "set_default_..." and "get_default_..." */
static bool is_about_defaults(const char *command)
{
	return strncmp(strchr(command, '_'), "_default_", strlen("_default_")) == 0;
}

bool scope_find(struct conn *conn, const struct tokens *tokens, bool is_to_set, struct scope *ret)
{
	struct server *server;

	*ret = (struct scope){
		.layer = &conn->daemon->default_commands,
		.devices = &conn->daemon->devices,
		.next = 1,
	};
	if (is_about_defaults(tokens->item[0]))
		return !is_to_set || scope_permits_config(conn, tokens->item[0]);
	if (strcmp(tokens->item[1], "-group") == 0)
		return find_group_scope(conn, tokens, is_to_set, ret);
	server = scope_find_server(conn, tokens->item[0], tokens->item[1], is_to_set);
	if (!server)
		return false;
	ret->server = server;
	ret->is_wish = !conn_is_trusted(conn);
	ret->layer = ret->is_wish ? &server->wish : &server->commands;
	if (server->devices.n > 0)
		ret->devices = &server->devices;
	ret->next = 2;
	return true;
}

struct settings scope_settings(const struct conn *conn, const struct scope *scope)
{
	const struct daemon *daemon = conn->daemon;

	if (scope->group)
		return groups_settings(scope->group, scope->devices);
	if (!scope->server)
		return default_settings(daemon);
	return server_settings(scope->server,
		daemon->config.is_multiuser ? conn->cred.uid : scope->server->tenant->uid);
}

void scope_changed(struct conn *conn, const struct scope *scope)
{
	if (scope->group)
		group_shares_changed(conn->daemon, scope->group);
	if (!scope->is_wish)
		servers_record(conn->daemon);
}

/* ---- GPUs */

bool scope_check_device(struct conn *conn, const struct devices *devices, const char *name)
{
	const struct frame_device *device;
	char list[640];
	int r;

	if (!device_name_ok(name))
		return command_fail(
			conn, "\"%s\" is not a device: a device is " DEVICE_NAME_ACCEPTED, name);
	r = devices_find(devices, name, &device);
	if (r == 0 || devices->n == 0)
		return true;
	devices_list(devices, list, sizeof(list));
	return command_fail(conn,
		r == -ENOTUNIQ
			? "The UUIDs of several devices begin with \"%s\": the devices are %s"
			: "Device \"%s\" not found: the devices are %s",
		name, list);
}

void scope_note_unchecked(struct conn *conn, const struct devices *devices, const char *name)
{
	if (devices->n > 0)
		return;
	command_reply(conn,
		"Device \"%s\" will be looked up when a server has started: the GPUs are not known "
		"yet (%s)",
		name, conn->daemon->probe_failure.text);
}

void scope_short_uuid(const struct frame_device *device, char text[DEVICE_UUID_TEXT])
{
	device_uuid_text(device, text);
	text[strlen("GPU-01234567-89ab-cdef")] = '\0';
}

/* ---- JSON */

static void reply_text(struct conn *conn, char *text)
{
	if (text)
		command_reply_text(conn, text);
	else
		command_fail(conn, "The daemon is out of memory");
	free(text);
}

void scope_reply_json(struct conn *conn, json_t *document)
{
	reply_text(conn, json_write(document));
}

void scope_reply_stream(struct conn *conn, struct json_stream *stream)
{
	reply_text(conn, json_stream_close(stream));
}
