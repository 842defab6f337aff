/* SPDX-License-Identifier: Apache-2.0 */

/* The module `device' of protocol 3. Loop thread. */

#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/server.h"
#include "daemon/reply/command_reply.h"

static const char *const columns[] = {
	"ordinal",
	"server",
	"pci-id",
	"device-uuid",
	"name",
	"total-sms",
	"total-chunks",
	"attributes",
};

static void add_devices(struct table *table, const char *server, const struct devices *devices)
{
	char uuid[DEVICE_UUID_TEXT];

	for (unsigned i = 0; i < devices->n; i++) {
		const struct frame_device *device = &devices->items[i];

		device_uuid_text(device, uuid);
		table_add(table, "%u", device->ordinal);
		table_add(table, "%s", server);
		table_add(table, "%s", device->pci_bus_id);
		table_add(table, "%s", uuid);
		table_add(table, "%s", device->name);
		table_add(table, "%u", device->n_sms);
		table_add(table, "%u", device->n_chunks);
		table_add(table, "N/A");
	}
}

static void add_slot(struct table *table, const struct slot *slot)
{
	char name[SERVER_NAME_MAX];

	slot_name(slot, name);
	if (slot->server)
		add_devices(table, name, &slot->server->devices);
}

/* Without a server, the list has the GPUs that one would have. */
void module_device_list(struct conn *conn, const struct tokens *tokens)
{
	const char *name = arguments_get(tokens, "server");
	struct table table;

	if (name && !module_find_slot(conn, name))
		return;
	if (!module_open_table(conn, tokens, columns, ARRAY_SIZE(columns), &table))
		return;
	list_each (const struct tenant, tenant, &conn->daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			if (module_shows_slot(conn, slot) && module_is_chosen(slot, name))
				add_slot(&table, slot);
	if (table.n_cells == 0 && !name)
		add_devices(&table, "", &conn->daemon->devices);
	module_reply_table(conn, &table);
}
