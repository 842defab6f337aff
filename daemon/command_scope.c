/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What commands are about, and who may give them. Loop thread.
 *
 * Invariant: whoever is neither root nor the daemon's user learns and changes
 * nothing of another user's.
 */

#include <stdio.h>
#include <string.h>

#include "clients.h"
#include "command_scope.h"
#include "command_conn.h"
#include "daemon.h"
#include "groups.h"
#include "json.h"
#include "conn.h"
#include "server.h"
#include "tenant.h"

/* ---- who may */

static void refuse(struct peer *peer, const char *command, uid_t owner)
{
	if (owner == 0)
		commander_fail(peer, "Operation not permitted: %s needs UID 0", command);
	else
		commander_fail(
			peer, "Operation not permitted: %s needs UID 0 or UID %u", command, owner);
	peer_log(peer, "That was process %d of user %u", peer->cred.pid, peer->cred.uid);
}

bool scope_may(struct peer *peer, const char *command, uid_t owner)
{
	if (peer->cred.uid == owner || daemon_trusts(peer->daemon, peer->cred.uid))
		return true;
	refuse(peer, command, owner);
	return false;
}

bool scope_may_set(struct peer *peer, const char *command)
{
	return scope_may(peer, command, peer->daemon->config.uid);
}

bool scope_sees_server(const struct peer *peer, const struct server *server)
{
	return server->tenant->uid == peer->cred.uid || daemon_trusts(peer->daemon, peer->cred.uid);
}

bool scope_sees_client(
	const struct peer *peer, const struct server *server, const struct client *client)
{
	if (daemon_trusts(peer->daemon, peer->cred.uid))
		return true;
	/* Another user's server may claim that its clients are this user's. */
	return scope_sees_server(peer, server) && client->uid == peer->cred.uid;
}

/* ---- servers and groups */

struct server *scope_find_server(
	struct peer *peer, const char *command, const char *pid, bool is_to_change)
{
	struct server *server;
	uint64_t number;

	if (parse_number(pid, INT32_MAX, &number) < 0) {
		commander_fail(peer, "Server %s not found", pid);
		return NULL;
	}
	server = server_find(peer->daemon, (pid_t)number);
	if (!server) {
		commander_fail(peer, "Server %d not found", (int)number);
		return NULL;
	}
	/* All users' server shows each what is his own. */
	if (is_to_change || !peer->daemon->config.is_multiuser)
		return scope_may(peer, command, server->tenant->uid) ? server : NULL;
	return server;
}

struct group *scope_find_group(struct peer *peer, const char *name)
{
	struct group *group = groups_find(&peer->daemon->groups, name);

	if (!group)
		commander_fail(peer, "Group %s not found: make it with group create", name);
	return group;
}

static bool find_group_scope(
	struct peer *peer, const struct words *words, bool is_to_set, struct scope *ret)
{
	if (words->n < 3) {
		commander_fail(peer, "-group needs the name of a group");
		return false;
	}
	if (is_to_set && !scope_may_set(peer, words->word[0]))
		return false;
	ret->group = scope_find_group(peer, words->word[2]);
	if (!ret->group)
		return false;
	ret->settings = &ret->group->settings;
	ret->devices = scope_devices(peer);
	ret->next = 3;
	return true;
}

bool scope_find(struct peer *peer, const struct words *words, bool is_to_set, struct scope *ret)
{
	struct server *server;

	*ret = (struct scope){0};
	if (strcmp(words->word[1], "-group") == 0)
		return find_group_scope(peer, words, is_to_set, ret);
	server = scope_find_server(peer, words->word[0], words->word[1], is_to_set);
	if (!server)
		return false;
	ret->settings = &server->settings;
	ret->devices = server->devices.n > 0 ? &server->devices : scope_devices(peer);
	ret->next = 2;
	return true;
}

void scope_changed(struct peer *peer, const struct scope *scope)
{
	if (scope->group)
		groups_changed(peer->daemon, scope->group);
}

/* ---- GPUs */

const struct devices *scope_devices(const struct peer *peer)
{
	return &peer->daemon->devices;
}

bool scope_check_device(struct peer *peer, const struct devices *devices, const char *name)
{
	const struct frame_device *device;
	char list[640];
	int r;

	if (!device_name_ok(name)) {
		commander_fail(
			peer, "\"%s\" is not a device: it takes " DEVICE_NAME_ACCEPTED, name);
		return false;
	}
	r = devices_find(devices, name, &device);
	if (r == 0 || devices->n == 0)
		return true;
	devices_list(devices, list, sizeof(list));
	commander_fail(peer,
		r == -ENOTUNIQ ? "The UUIDs of several devices begin with \"%s\": there are %s"
			       : "Device \"%s\" not found: there are %s",
		name, list);
	return false;
}

void scope_note_unchecked(struct peer *peer, const struct devices *devices, const char *name)
{
	if (devices->n > 0)
		return;
	commander_reply(peer,
		"Device \"%s\" is looked up when a server has started: its GPUs are not known (%s)",
		name, peer->daemon->probe_failure.text);
}

void scope_short_uuid(const struct frame_device *device, char text[DEVICE_UUID_TEXT])
{
	device_uuid_text(device, text);
	text[strlen("GPU-01234567-89ab-cdef")] = '\0';
}

/* ---- JSON */

void scope_reply_json(struct peer *peer, struct json *json)
{
	if (json->failed)
		commander_fail(peer, "The daemon has no memory");
	else
		commander_reply_text(peer, json->text);
	json_fini(json);
}
