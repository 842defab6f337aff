/* SPDX-License-Identifier: Apache-2.0 */

/* The module `namespace' of protocol 3. Loop thread. */

#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "modules.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/clients.h"
#include "daemon/server/namespaces.h"
#include "daemon/server/server.h"
#include "daemon/watch/termination.h"
#include "daemon/reply/command_reply.h"

static const char *const columns[] = {
	"name",
	"server",
	"server-status",
	"pinned-memory-limit",
	"active-thread-percentage",
	"client-priority",
	"pipe-directory",
	/* Not in the list, whose columns are the vendor's. */
	"soft-limit",
	"cgroup",
	"cgroup-depth",
};

#define COLUMNS_LISTED 7

/* The slot that --server names, to change it; NULL: the connection is answered. */
static struct slot *find_slot(struct conn *conn, const struct tokens *tokens)
{
	const char *server = arguments_get(tokens, "server");

	if (server)
		return module_find_slot_to_change(conn, server);
	command_fail(conn, "%s needs --server=SERVER", tokens->item[0]);
	return NULL;
}

/* ---- create and delete */

static bool has_space(struct conn *conn, const struct slot *slot)
{
	unsigned n = 0;

	list_each (const struct namespace, namespace, &slot->namespaces, link)
		n++;
	if (daemon_trusts_server(conn->daemon, slot->tenant->uid) || n < NAMESPACES_MAX)
		return true;
	return command_fail(
		conn, "The server has %u namespaces, which is the maximum: delete one", n);
}

static void refuse_existing(struct conn *conn, const char *name)
{
	if (!module_keeps(conn, "Namespace", name))
		command_fail(conn, "Namespace '%s' already exists", name);
}

static void set_route(struct namespace *namespace, const struct route *route)
{
	memcpy(namespace->cgroup, route->cgroup, sizeof(namespace->cgroup));
	namespace->cgroup_depth = route->depth;
	daemon_want(namespace->slot->tenant->daemon, WANT_RECORD);
}

void module_namespace_create(struct conn *conn, const struct tokens *tokens)
{
	const char *name = tokens->item[1];
	struct slot *slot = find_slot(conn, tokens);
	struct namespace *namespace;
	struct error_message error;
	struct route route;

	if (!slot || !module_read_route(conn, tokens, slot, NULL, &route))
		return;
	if (!server_name_ok(name) || server_name_is_taken(name))
		command_fail(conn,
			"\"%s\" is not a name of a namespace: it must have " SERVER_NAME_ACCEPTED
			", and neither be log nor begin with control",
			name);
	else if (namespace_find(slot, name))
		refuse_existing(conn, name);
	else if (!has_space(conn, slot))
		return;
	else if (namespace_create(slot, name, &namespace, &error) < 0)
		command_fail(conn, "%s", error.text);
	else
		set_route(namespace, &route);
}

/* Its clients that wait for their server, and those that the server has. */
static void end_clients(const struct namespace *namespace)
{
	struct slot *slot = namespace->slot;

	list_each_safe (struct conn, conn, &slot->clients, wait)
		if (conn->group == namespace->group->id)
			conn_refuse(conn, CUDA_ERROR_MPS_CONNECTION_FAILED,
				"The namespace %.140s is deleted", namespace->group->name);
	list_each (struct server, server, &slot->tenant->daemon->servers, link_in_daemon)
		termination_of_group(server, namespace->group->id);
}

/* The namespace is deleted all the same when the work has ended, or the server. */
static void on_deadline(struct conn *conn)
{
	list_remove(&conn->wait);
	pending_fail(conn,
		"The server has not ended the work of clients of the namespace within its time: "
		"the namespace takes no clients, and is deleted when their work has ended");
	pending_end(conn);
}

static const struct pending pending_delete = {.on_deadline = on_deadline};

/* Answers the connection if the namespace cannot be deleted. */
static bool may_delete(
	struct conn *conn, const struct tokens *tokens, const struct namespace *namespace)
{
	unsigned n = clients_count_group(conn->daemon, namespace->group->id);

	if (*namespace->slot->name && strcmp(namespace->name, NAMESPACE_DEFAULT) == 0)
		return command_fail(
			conn, "The namespace " NAMESPACE_DEFAULT " ends with its server only");
	if (n == 0 || arguments_get(tokens, "force"))
		return true;
	return command_fail(conn, "Namespace '%s' has %u client%s: end them first, or use --force",
		namespace->name, n, n > 1 ? "s" : "");
}

void module_namespace_delete(struct conn *conn, const struct tokens *tokens)
{
	const struct slot *slot = find_slot(conn, tokens);
	struct namespace *namespace =
		slot ? module_find_namespace(conn, slot, tokens->item[1]) : NULL;

	if (!namespace || !may_delete(conn, tokens, namespace))
		return;
	end_clients(namespace);
	pending_begin(conn, &pending_delete, slot->server ? termination_bound_ms(slot->server) : 0);
	namespace_delete(namespace, conn);
}

/* ---- list and get */

static void add_row(struct table *table, const struct namespace *namespace)
{
	const struct config *config = &namespace->slot->tenant->daemon->config;
	char server[SERVER_NAME_MAX];

	slot_name(namespace->slot, server);
	table_add(table, "%s", namespace->name);
	table_add(table, "%s", server);
	table_add(table, "%s", module_status(namespace->slot));
	module_add_limits(table, namespace->group);
	table_add(table, "%s/%s/%s", config->pipe_directory, server, namespace->name);
}

static void add_slot(
	const struct conn *conn, struct table *table, const struct slot *slot, const char *name)
{
	list_each (const struct namespace, namespace, &slot->namespaces, link)
		if (module_shows_namespace(conn, namespace) &&
			(!name || strcmp(namespace->name, name) == 0))
			add_row(table, namespace);
}

void module_namespace_list(struct conn *conn, const struct tokens *tokens)
{
	const char *name = tokens->n > 1 ? tokens->item[1] : NULL;
	const char *server = arguments_get(tokens, "server");
	struct table table;

	if (server && !module_find_slot(conn, server))
		return;
	if (!module_open_table(conn, tokens, columns, COLUMNS_LISTED, &table))
		return;
	list_each (const struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, server))
				add_slot(conn, &table, slot, name);
	if (name && table.n_cells == 0)
		command_fail(conn, "Namespace '%s' not found: see namespace list", name);
	else
		module_reply_table(conn, &table);
}

void module_namespace_get(struct conn *conn, const struct tokens *tokens)
{
	const struct slot *slot = module_find_slot(conn, tokens->item[2]);
	const struct namespace *namespace =
		slot ? module_find_namespace(conn, slot, tokens->item[1]) : NULL;
	struct table table;
	int field;

	if (!namespace)
		return;
	field = module_find_field(conn, columns, ARRAY_SIZE(columns), tokens->item[3]);
	if (field < 0)
		return;
	table_init(&table, columns, ARRAY_SIZE(columns), NULL);
	add_row(&table, namespace);
	module_add_soft_limit(&table, namespace->group);
	module_add_route(&table, namespace);
	module_reply_cell(conn, &table, (size_t)field);
}

/* ---- set */

void module_namespace_set(struct conn *conn, const struct tokens *tokens)
{
	const struct slot *slot = find_slot(conn, tokens);
	struct namespace *namespace =
		slot ? module_find_namespace(conn, slot, tokens->item[1]) : NULL;
	struct route route;

	if (namespace && module_read_route(conn, tokens, slot, namespace, &route) &&
		module_set_limits(conn, tokens, namespace->group, module_has_route(tokens)))
		set_route(namespace, &route);
}
