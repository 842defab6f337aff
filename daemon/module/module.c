/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the commands of protocol 3 share. Loop thread.
 *
 * Invariant: a user learns no names of servers of other users, and of the server of all users only
 * the namespaces of the own clients.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/namespaces.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* ---- tables and fields */

bool module_open_table(struct conn *conn, const struct tokens *tokens, const char *const *columns,
	size_t n_columns, struct table *table)
{
	const char *format = arguments_get(tokens, "format");

	if (table_init(table, columns, n_columns, format))
		return true;
	return command_fail(conn, "\"%s\" is not a format: --format takes " TABLE_FORMATS, format);
}

void module_reply_table(struct conn *conn, struct table *table)
{
	_cleanup_free_ char *text = table_close(table);

	if (!text)
		command_fail(conn, "The daemon is out of memory");
	else if (*text)
		command_reply_text(conn, text);
}

void module_reply_cell(struct conn *conn, struct table *table, size_t column)
{
	_cleanup_free_ char *rest = NULL;

	if (!table->has_failed)
		command_reply(conn, "%s", table_cell(table, column));
	rest = table_close(table);
	if (!rest)
		command_fail(conn, "The daemon is out of memory");
}

static bool is_field(const char *column, const char *field)
{
	while (*column && (*column == *field || (*column == '-' && *field == '_'))) {
		column++;
		field++;
	}
	return !*column && !*field;
}

int module_find_field(
	struct conn *conn, const char *const *columns, size_t n_columns, const char *field)
{
	char names[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < n_columns; i++) {
		if (is_field(columns[i], field))
			return (int)i;
		used += (size_t)snprintf(
			names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", columns[i]);
	}
	command_fail(conn, "Unknown field \"%s\": the fields are %s", field, names);
	return -EINVAL;
}

/* ---- servers */

static bool owns_slot(const struct conn *conn, const struct slot *slot)
{
	return conn->daemon->config.is_multiuser ? conn_is_trusted(conn)
						 : viewer_sees_user(conn, slot->tenant->uid);
}

/* With -M the servers serve all users, except those of isolated programs. */
bool module_shows_slot(const struct conn *conn, const struct slot *slot)
{
	bool serves_user = conn->daemon->config.is_multiuser &&
			   (!slot->is_isolated || viewer_sees_user(conn, slot->uid));

	return (slot->server || *slot->name || !list_empty(&slot->namespaces) ||
		       slot->n_partitions > 0) &&
	       (owns_slot(conn, slot) || serves_user);
}

bool module_is_chosen(const struct slot *slot, const char *name)
{
	char own[SERVER_NAME_MAX];

	slot_name(slot, own);
	return !name || strcmp(own, name) == 0;
}

bool module_keeps(struct conn *conn, const char *kind, const char *name)
{
	if (conn->is_for_file)
		log_control(&conn->daemon->logs, "%s '%s' stays as the previous daemon had it",
			kind, name);
	return conn->is_for_file;
}

bool module_check_domains(struct conn *conn, const struct tokens *tokens)
{
	const char *text = arguments_get(tokens, "locality-domains");

	if (!text || strcmp(text, "false") == 0)
		return true;
	return command_fail(conn, strcmp(text, "true") == 0
					  ? "--locality-domains " MODULE_NO_DOMAINS
					  : "--locality-domains is neither true nor false");
}

const struct frame_device *module_find_device(struct conn *conn, const char *name)
{
	const struct devices *devices = &conn->daemon->devices;
	const struct frame_device *device;

	if (devices->n == 0) {
		command_fail(conn, "The GPUs are not known: %s", conn->daemon->probe_failure.text);
		return NULL;
	}
	return scope_check_device(conn, devices, name) && devices_find(devices, name, &device) == 0
		       ? device
		       : NULL;
}

bool module_has_device(const struct slot *slot, const struct frame_device *device)
{
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	return !slot->devices || strstr(slot->devices, uuid);
}

/* "Ready" is the vendor's word. A named server that has ended starts again with its next client. */
const char *module_status(const struct slot *slot)
{
	static const char *const names[] = {
		[SERVER_INITIALIZING] = "Initializing",
		[SERVER_ACTIVE] = "Ready",
		[SERVER_FAULT] = "Fault",
		[SERVER_STOPPING] = "Stopping",
	};

	return slot->server ? names[slot->server->state] : "Stopped";
}

/* A client of uid_1000 connects in the daemon's own directory. */
void module_directory(const struct slot *slot, char text[MODULE_DIRECTORY_MAX])
{
	snprintf(text, MODULE_DIRECTORY_MAX, "%s%s%s", slot->tenant->daemon->config.pipe_directory,
		*slot->name ? "/" : "", slot->name);
}

static bool has_client_in(const struct conn *conn, const struct namespace *namespace)
{
	const struct server *server = namespace->slot->server;

	if (server)
		list_each (const struct client, client, &server->clients, link)
			if (client->group == namespace->group->id &&
				viewer_sees_client(conn, server, client))
				return true;
	return false;
}

bool module_shows_namespace(const struct conn *conn, const struct namespace *namespace)
{
	return owns_slot(conn, namespace->slot) || conn->entry == namespace->group->id ||
	       has_client_in(conn, namespace);
}

struct namespace *module_find_namespace(
	struct conn *conn, const struct slot *slot, const char *name)
{
	struct namespace *namespace = namespace_find(slot, name);
	char server[SERVER_NAME_MAX];

	if (namespace && module_shows_namespace(conn, namespace))
		return namespace;
	slot_name(slot, server);
	command_fail(
		conn, "Namespace '%s' of server '%s' not found: see namespace list", name, server);
	return NULL;
}

struct slot *module_find_slot(struct conn *conn, const char *name)
{
	list_each (struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, name))
				return slot;
	command_fail(conn, "Server '%s' not found: see server list", name);
	return NULL;
}

/* The words of the refusal are those of the vendor's daemon. */
static bool refuse_change(struct conn *conn)
{
	char name[sizeof(conn->command)];
	size_t i;

	for (i = 0; conn->command[i]; i++)
		name[i] = (char)toupper((unsigned char)conn->command[i]);
	name[i] = '\0';
	command_fail(conn, "Insufficient privileges for UID %u. '%s' requires server owner.",
		conn->cred.uid, name);
	conn_log(conn, "The refused command came from process %d of user %u", conn->cred.pid,
		conn->cred.uid);
	return false;
}

struct slot *module_find_slot_to_change(struct conn *conn, const char *name)
{
	struct slot *slot = module_find_slot(conn, name);

	return slot && (owns_slot(conn, slot) || refuse_change(conn)) ? slot : NULL;
}
