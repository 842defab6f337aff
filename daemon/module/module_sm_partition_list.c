/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sm-partition list, of protocol 3. Loop thread.
 *
 * Invariant: a user sees no partitions of servers that it does not see, and no namespaces of other
 * users.
 */

#include <stdio.h>
#include <string.h>

#include "modules.h"
#include "daemon/config/devices.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/partitions.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/partition_choice.h"
#include "daemon/server/server.h"
#include "daemon/reply/command_reply.h"

/* The last ones are those of --long. */
static const char *const columns[] = {
	"server",
	"device",
	"name",
	"chunks",
	"sm-count",
	"include-remainder",
	"status",
	"visible-uuid",
	"max-chunks",
	"shareable",
	"clients",
	"namespaces",
};

#define N_LONG 4

static const char *word_of(bool is_on)
{
	return is_on ? "true" : "false";
}

/* The namespaces that are bound to it, as far as the connection's user sees them. */
static void add_namespaces(
	const struct conn *conn, struct table *table, const struct partition *partition)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file) {
		table->has_failed = true;
		return;
	}
	list_each (const struct binding, binding, &partition->bindings, link) {
		const struct group *group = groups_get(&conn->daemon->groups, binding->group);

		if (module_shows_namespace(conn, group->namespace))
			fprintf(file, "%s%s", ftell(file) > 0 ? "," : "", group->name);
	}
	if (fclose(file) != 0)
		table->has_failed = true;
	else
		table_add(table, "%s", text);
}

static void add_long(
	const struct conn *conn, struct table *table, const struct partition *partition)
{
	if (table->n_columns < ARRAY_SIZE(columns))
		return;
	table_add(table, "%u", partition->max_chunks);
	table_add(table, "%s", word_of(partition->is_shareable));
	table_add(table, "%u", partition_count_clients(conn->daemon, partition));
	add_namespaces(conn, table, partition);
}

static void add_partition(const struct conn *conn, struct table *table, const char *server,
	const struct frame_device *device, const struct partition *partition)
{
	const struct slot *slot = partition->slot;
	char uuid[DEVICE_UUID_TEXT], name[PARTITION_NAME_MAX];

	device_uuid_text(device, uuid);
	partition_name(partition, device, name);
	table_add(table, "%s", slot ? server : "");
	table_add(table, "%s", uuid);
	table_add(table, "%s", partition->name);
	table_add(table, "%u", chunks_count(partition->chunks & chunks_of(device)));
	table_add(table, "%u", chunks_sms(partition->chunks, device));
	table_add(table, "%s", word_of(partition->chunks & chunks_remainder(device)));
	table_add(table, "%s",
		slot && !(slot->server && server_is_ready(slot->server)) ? "configured"
									 : "created");
	table_add(table, "%s", name);
	add_long(conn, table, partition);
}

/* What is in no partition of the server. */
static void add_unallocated(
	struct table *table, const char *server, const struct frame_device *device, uint64_t used)
{
	uint64_t chunks = chunks_of(device) & ~used, rest = chunks_remainder(device) & ~used;
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	table_add(table, "%s", server);
	table_add(table, "%s", uuid);
	table_add(table, "-");
	table_add(table, "%u", chunks_count(chunks));
	table_add(table, "%u", chunks_sms(chunks | rest, device));
	table_add(table, "%s", word_of(rest));
	table_add(table, "unallocated");
	for (size_t i = 7; i < table->n_columns; i++)
		table_add(table, "-");
}

static void add_device(const struct conn *conn, struct table *table, const struct slot *slot,
	const struct frame_device *device)
{
	const struct list *partitions = &conn->daemon->partitions;
	char server[SERVER_NAME_MAX];

	slot_name(slot, server);
	list_each (const struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) && partition_serves(partition, slot))
			add_partition(conn, table, server, device, partition);
	add_unallocated(table, server, device, partitions_used(partitions, device, slot));
}

static void add_slot(struct conn *conn, struct table *table, const struct slot *slot,
	const struct frame_device *only, bool is_all)
{
	const struct devices *devices = &conn->daemon->devices;

	for (unsigned i = 0; i < devices->n; i++) {
		const struct frame_device *device = &devices->items[i];
		bool is_used = partitions_used(&conn->daemon->partitions, device, slot);

		if ((!only || only == device) && module_has_device(slot, device) &&
			(is_used || is_all))
			add_device(conn, table, slot, device);
	}
}

/* A partition of protocol 2 is in the rows of each server, as each may use it. */
void module_sm_partition_list(struct conn *conn, const struct tokens *tokens)
{
	const char *server = arguments_get(tokens, "server");
	const char *name = arguments_get(tokens, "device");
	const struct frame_device *device = name ? module_find_device(conn, name) : NULL;
	size_t n = ARRAY_SIZE(columns) - (arguments_get(tokens, "long") ? 0 : N_LONG);
	bool is_all = arguments_get(tokens, "all");
	struct table table;

	if ((name && !device) || (server && !module_find_slot(conn, server)) ||
		!module_open_table(conn, tokens, columns, n, &table))
		return;
	table.has_hyphens = true;
	list_each (const struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, server))
				add_slot(conn, &table, slot, device, is_all);
	module_reply_table(conn, &table);
}
