/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The module `memacct' of protocol 3: the memory of namespaces and of their clients. Loop thread.
 *
 * Invariant: the numbers of clients are those of their servers, which may say anything. The limits
 * are the daemon's.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/counting.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

#define UNLIMITED "unlimited"

static const char *const columns[] = {
	"server",
	"namespace",
	"pid",
	"device",
	"used",
	"soft",
	"hard",
	"borrowed",
	"away",
};

/* Of a client, or of the clients of a namespace, on one GPU. */
struct amounts {
	uint64_t used, away; /* `used' includes what is away */
	uint64_t soft, hard; /* MEMORY_ALL: no limit */
};

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t borrowed(const struct amounts *amounts)
{
	return difference(difference(amounts->used, amounts->away), amounts->soft);
}

static void add_size(struct table *table, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX] = UNLIMITED;

	if (bytes == 0)
		snprintf(text, sizeof(text), "0");
	else if (bytes != MEMORY_ALL)
		format_size(bytes, text, sizeof(text));
	table_add(table, "%s", text);
}

/* `pid' of a client; 0: the row is the namespace's. */
static void add_row(struct table *table, const struct slot *slot, const char *namespace, pid_t pid,
	const struct frame_device *device, const struct amounts *amounts)
{
	char server[SERVER_NAME_MAX], uuid[DEVICE_UUID_TEXT], number[16] = "";

	slot_name(slot, server);
	device_uuid_text(device, uuid);
	if (pid != 0)
		snprintf(number, sizeof(number), "%d", pid);
	table_add(table, "%s", server);
	table_add(table, "%s", namespace);
	table_add(table, "%s", number);
	table_add(table, "%s", uuid);
	add_size(table, amounts->used);
	add_size(table, amounts->soft);
	add_size(table, amounts->hard);
	add_size(table, borrowed(amounts));
	add_size(table, amounts->away);
}

/* ---- rows */

static struct amounts amounts_of_client(const struct client *client, const struct context *context)
{
	const uint32_t i = context->ordinal;

	return (struct amounts){
		.used = client->counts.memory[i],
		.away = client->counts.away[i],
		.soft = client->soft[i],
		.hard = context->memory,
	};
}

static void add_clients(const struct conn *conn, struct table *table, const struct server *server,
	uint32_t group, const char *name)
{
	list_each (const struct client, client, &server->clients, link)
		for (unsigned i = 0; i < client->n_contexts; i++) {
			const struct context *context = &client->contexts[i];
			const struct amounts amounts = amounts_of_client(client, context);

			if (client->group == group && viewer_sees_client(conn, server, client))
				add_row(table, server->slot, name, client->pid,
					&server->devices.items[context->ordinal], &amounts);
		}
}

/* What the clients of the namespace, or of the cgroup, have together in that server. */
static struct amounts amounts_of_group(
	const struct server *server, const struct group *group, const struct frame_device *device)
{
	const struct frame_limits limits = group_shares_limits(server, group);
	struct amounts amounts = {
		.soft = limits.soft[device->ordinal], .hard = limits.memory[device->ordinal]};

	list_each (const struct client, client, &server->clients, link)
		if (client_is_in(client, group->id)) {
			amounts.used += client->counts.memory[device->ordinal];
			amounts.away += client->counts.away[device->ordinal];
		}
	return amounts;
}

static void add_namespace(
	const struct conn *conn, struct table *table, const struct namespace *namespace)
{
	const struct server *server = namespace->slot->server;

	for (unsigned i = 0; server && i < server->devices.n; i++) {
		const struct frame_device *device = &server->devices.items[i];
		const struct amounts amounts = amounts_of_group(server, namespace->group, device);

		add_row(table, namespace->slot, namespace->name, 0, device, &amounts);
	}
	if (server)
		add_clients(conn, table, server, namespace->group->id, namespace->name);
}

static bool shows_cgroup(
	const struct conn *conn, const struct server *server, const struct group *group)
{
	list_each (const struct client, client, &server->clients, link)
		if (client_is_in(client, group->id) && viewer_sees_client(conn, server, client))
			return true;
	return false;
}

/* The cgroups with limits whose clients the server has. */
static void add_cgroups(const struct conn *conn, struct table *table, const struct server *server)
{
	list_each (const struct group, group, &conn->daemon->groups.cgroups, link) {
		if (!shows_cgroup(conn, server, group))
			continue;
		for (unsigned i = 0; i < server->devices.n; i++) {
			const struct frame_device *device = &server->devices.items[i];
			const struct amounts amounts = amounts_of_group(server, group, device);

			add_row(table, server->slot, group->name, 0, device, &amounts);
		}
	}
}

static void add_slot(const struct conn *conn, struct table *table, const struct slot *slot)
{
	list_each (const struct namespace, namespace, &slot->namespaces, link)
		add_namespace(conn, table, namespace);
	if (slot->server && !*slot->name)
		add_clients(conn, table, slot->server, 0, NAMESPACE_DEFAULT);
	if (slot->server)
		add_cgroups(conn, table, slot->server);
}

/* ---- describe and set */

static bool is_fresh(struct conn *conn, const struct tokens *tokens)
{
	const char *server = arguments_get(tokens, "server");
	const char *format = arguments_get(tokens, "format");
	char command[COMMAND_MAX];

	snprintf(command, sizeof(command), "memacct describe%s%s%s%s", server ? " --server=" : "",
		server ? server : "", format ? " --format=" : "", format ? format : "");
	return counting_is_fresh(conn, command);
}

void module_memacct_describe(struct conn *conn, const struct tokens *tokens)
{
	const char *server = arguments_get(tokens, "server");
	struct table table;

	if (server && !module_find_slot(conn, server))
		return;
	if (!is_fresh(conn, tokens) ||
		!module_open_table(conn, tokens, columns, ARRAY_SIZE(columns), &table))
		return;
	list_each (const struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, server))
				add_slot(conn, &table, slot);
	module_reply_table(conn, &table);
}

void module_memacct_set(struct conn *conn, const struct tokens *tokens)
{
	const char *text = arguments_get(tokens, "audit-log");
	bool is_on = text && strcmp(text, "true") == 0;

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	if (!text || (!is_on && strcmp(text, "false") != 0)) {
		command_fail(conn, "memacct set takes audit_log=true or audit_log=false");
		return;
	}
	conn->daemon->is_memory_audited = is_on;
	daemon_want(conn->daemon, WANT_RECORD);
}
