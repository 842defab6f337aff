/* SPDX-License-Identifier: Apache-2.0 */

/* The module `server' of protocol 3. Loop thread. */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/namespaces.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/reply/command_reply.h"

/* `get' takes all but the last one. */
static const char *const columns[] = {
	"name",
	"uid",
	"pid",
	"status",
	"pipe-directory",
	"allowed-devices",
	"context-ids",
};

static void add_devices(struct table *table, const struct slot *slot)
{
	static const struct devices none;
	const struct devices *devices = slot->server ? &slot->server->devices : &none;
	char text[DEVICES_MAX * DEVICE_UUID_TEXT] = "", uuid[DEVICE_UUID_TEXT];
	size_t used = 0;

	for (unsigned i = 0; i < devices->n; i++) {
		device_uuid_text(&devices->items[i], uuid);
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%s", i > 0 ? "," : "", uuid);
	}
	table_add(table, "%s", slot->devices ? slot->devices : text);
}

/* The IDs of its clients, which `ps' shows, too. */
static void add_contexts(const struct conn *conn, struct table *table, const struct server *server)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file) {
		table->has_failed = true;
		return;
	}
	if (server)
		list_each (const struct client, client, &server->clients, link)
			if (client->n_contexts > 0 && viewer_sees_client(conn, server, client))
				fprintf(file, "%s%u", ftell(file) > 0 ? "," : "",
					client->contexts[0].session);
	if (fclose(file) != 0)
		table->has_failed = true;
	else
		table_add(table, "%s", text);
}

static void add_row(const struct conn *conn, struct table *table, const struct slot *slot)
{
	const struct server *server = slot->server;
	char name[SERVER_NAME_MAX], directory[MODULE_DIRECTORY_MAX];

	slot_name(slot, name);
	module_directory(slot, directory);
	table_add(table, "%s", name);
	table_add(table, "%u", slot->tenant->uid);
	if (server)
		table_add(table, "%d", server->pid);
	else
		table_add(table, "-");
	table_add(table, "%s", module_status(slot));
	table_add(table, "%s", directory);
	add_devices(table, slot);
	add_contexts(conn, table, server);
}

void module_server_list(struct conn *conn, const struct tokens *tokens)
{
	const char *name = tokens->n > 1 ? tokens->item[1] : NULL;
	struct table table;

	if (name && !module_find_slot(conn, name))
		return;
	if (!module_open_table(conn, tokens, columns, ARRAY_SIZE(columns), &table))
		return;
	list_each (const struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, name))
				add_row(conn, &table, slot);
	module_reply_table(conn, &table);
}

void module_server_get(struct conn *conn, const struct tokens *tokens)
{
	const struct slot *slot = module_find_slot(conn, tokens->item[1]);
	size_t n_fields = ARRAY_SIZE(columns) - 1;
	struct table table;
	int field;

	if (!slot)
		return;
	field = module_find_field(conn, columns, n_fields, tokens->item[2]);
	if (field < 0)
		return;
	table_init(&table, columns, ARRAY_SIZE(columns), NULL);
	add_row(conn, &table, slot);
	module_reply_cell(conn, &table, (size_t)field);
}

/* The owner of a server does not change. False: the connection is answered. */
static bool check_owner(struct conn *conn, const struct slot *slot, const char *uid)
{
	bool is_multiuser = conn->daemon->config.is_multiuser;
	uint64_t number;

	if (parse_number(uid, UINT32_MAX - 1, &number) < 0)
		return command_fail(
			conn, "\"%s\" is not a user id (UID): --uid takes a number", uid);
	return number == (is_multiuser ? 0 : slot->tenant->uid) ||
	       command_fail(conn,
		       "The owner of a server does not change: delete the server, and create it "
		       "with --uid=%s",
		       uid);
}

/* The limits of a server are those of its namespace `default'. */
void module_server_set(struct conn *conn, const struct tokens *tokens)
{
	const struct slot *slot = module_find_slot_to_change(conn, tokens->item[1]);
	const char *uid = arguments_get(tokens, "uid");
	size_t n_fixed = (uid != NULL) + (arguments_get(tokens, "locality-domains") != NULL);
	const struct namespace *namespace;

	if (!slot || !module_check_domains(conn, tokens) || (uid && !check_owner(conn, slot, uid)))
		return;
	/* What was said is so already. */
	if (n_fixed > 0 && tokens->n_options == n_fixed)
		return;
	if (!*slot->name && !namespace_find(slot, NAMESPACE_DEFAULT)) {
		command_fail(conn,
			"%s is the server of a user, and has no namespace default: [user NAME] in "
			"mps.conf limits its clients, or set_active_thread_percentage and the "
			"like",
			tokens->item[1]);
		return;
	}
	namespace = module_find_namespace(conn, slot, NAMESPACE_DEFAULT);
	if (namespace)
		module_set_limits(conn, tokens, namespace->group, false);
}
