/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The module `client' of protocol 3. Loop thread.
 *
 * Invariant: a name that a program has chosen stays within its cell.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/text/escape.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/termination.h"
#include "daemon/reply/command_reply.h"

#define COMMAND_TEXT 256

/* Of `get'; the list leaves two out. */
static const char *const columns[] = {
	"pid",
	"server",
	"device",
	"pci-id",
	"linux-ns",
	"maws-ns",
	"cmd",
};

static const char *const list_columns[] = {
	"pid",
	"server",
	"device",
	"maws-ns",
	"cmd",
};

/* ---- rows */

static void add_device(struct table *table, const struct server *server,
	const struct context *context, bool is_list)
{
	const struct frame_device *device =
		context ? &server->devices.items[context->ordinal] : NULL;
	char uuid[DEVICE_UUID_TEXT] = "";

	if (device)
		device_uuid_text(device, uuid);
	table_add(table, "%s", uuid);
	if (!is_list)
		table_add(table, "%s", device ? device->pci_bus_id : "");
}

/* SERVER/NAMESPACE, as in the vendor's list; a client without one is in `default'. */
static void add_namespace(
	struct table *table, const struct server *server, const struct client *client)
{
	const struct group *group = groups_get(&server->daemon->groups, client->group);
	char name[SERVER_NAME_MAX];

	slot_name(server->slot, name);
	if (group && group->namespace)
		table_add(table, "%s (0)", group->name);
	else
		table_add(table, "%s/" NAMESPACE_DEFAULT " (0)", name);
}

static void add_row(struct table *table, const struct server *server, const struct client *client,
	const struct context *context)
{
	bool is_list = table->columns == list_columns;
	char name[SERVER_NAME_MAX], command[COMMAND_TEXT];

	slot_name(server->slot, name);
	escape_word(client->command, command, sizeof(command));
	table_add(table, "%d", client->pid);
	table_add(table, "%s", name);
	add_device(table, server, context, is_list);
	if (!is_list)
		table_add(table, "%llu", (unsigned long long)client->pid_namespace);
	add_namespace(table, server, client);
	table_add(table, "%s", command);
}

/* ---- list and get */

static void list_clients(const struct conn *conn, struct table *table, const struct server *server)
{
	list_each (const struct client, client, &server->clients, link) {
		if (!viewer_sees_client(conn, server, client))
			continue;
		if (client->n_contexts == 0)
			add_row(table, server, client, NULL);
		for (unsigned i = 0; i < client->n_contexts; i++)
			add_row(table, server, client, &client->contexts[i]);
	}
}

void module_client_list(struct conn *conn, const struct tokens *tokens)
{
	const char *name = arguments_get(tokens, "server");
	struct table table;

	if (name && !module_find_slot(conn, name))
		return;
	if (!module_open_table(conn, tokens, list_columns, ARRAY_SIZE(list_columns), &table))
		return;
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		if (module_is_chosen(server->slot, name))
			list_clients(conn, &table, server);
	module_reply_table(conn, &table);
}

/* The client of that PID that the connection's user may see. NULL: the connection is answered. */
static const struct client *find_client(
	struct conn *conn, const char *pid, struct server **ret_server)
{
	uint64_t number = 0;

	if (parse_number(pid, INT32_MAX, &number) < 0)
		number = 0;
	list_each (struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link) {
			if (number == 0 || (uint64_t)client->pid != number ||
				!viewer_sees_client(conn, server, client))
				continue;
			*ret_server = server;
			return client;
		}
	command_fail(conn, "Client %s not found: see client list", pid);
	return NULL;
}

void module_client_get(struct conn *conn, const struct tokens *tokens)
{
	struct server *server;
	const struct client *client = find_client(conn, tokens->item[1], &server);
	struct table table;
	int field;

	if (!client)
		return;
	field = module_find_field(conn, columns, ARRAY_SIZE(columns), tokens->item[2]);
	if (field < 0)
		return;
	table_init(&table, columns, ARRAY_SIZE(columns), NULL);
	add_row(&table, server, client, client->n_contexts > 0 ? client->contexts : NULL);
	module_reply_cell(conn, &table, (size_t)field);
}

/* A user that sees a client may end its work: it is the user's own, or the user is trusted. */
void module_client_terminate(struct conn *conn, const struct tokens *tokens)
{
	struct server *server;
	const struct client *client = find_client(conn, tokens->item[1], &server);

	if (client)
		termination_begin(server, conn, client->pid);
}
