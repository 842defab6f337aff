/* SPDX-License-Identifier: Apache-2.0 */

/*
 * device_query: the GPUs of the servers. Loop thread.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

enum form {
	FORM_TABLE,
	FORM_CSV,
	FORM_JSON
};

/* GPUs known to the daemon (`server' is NULL) or to a server. */
struct section {
	const struct server *server;
	struct devices devices; /* not owned */
};

/* "0000:00.06.00", as in the vendor's table. */
static void query_format_pci(const struct frame_device *device, char *text, size_t size)
{
	unsigned domain, bus, slot, function;

	if (sscanf(device->pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
		snprintf(text, size, "%04x:%02x.%02x.%02x", domain, bus, slot, function);
	else
		snprintf(text, size, "%s", device->pci_bus_id);
}

/* ---- a table */

static void query_print_device(struct conn *conn, const struct frame_device *device)
{
	char pci[48], uuid[DEVICE_UUID_TEXT];

	query_format_pci(device, pci, sizeof(pci));
	device_uuid_text(device, uuid);
	command_reply(conn, "%-15u %-14s %-41s %-33s %s", device->ordinal, pci, uuid, device->name,
		"N/A");
}

static void query_print_section(struct conn *conn, const struct section *section)
{
	if (section->server)
		command_reply(conn, "Server %d", section->server->pid);
	else
		command_reply(conn, "Default");
	command_reply(conn, "%-15s %-14s %-41s %-33s %s", "Device Ordinal", "PCI IDs", "UUID",
		"Name", "Attributes");
	for (unsigned i = 0; i < section->devices.n; i++)
		query_print_device(conn, &section->devices.items[i]);
}

/* ---- CSV */

/* Encloses the text in quotes, and doubles quotes within it. */
static void query_quote_csv(const char *text, char *quoted, size_t size)
{
	size_t used = 0;

	quoted[used++] = '"';
	for (; *text && used + 3 < size; text++) {
		if (*text == '"')
			quoted[used++] = '"';
		quoted[used++] = *text;
	}
	quoted[used++] = '"';
	quoted[used] = '\0';
}

static void query_write_csv(struct conn *conn, const struct section *section)
{
	char server[16] = "Default", pci[48], uuid[DEVICE_UUID_TEXT];
	char name[2 * sizeof(((struct frame_device *)NULL)->name) + 3];

	if (section->server)
		snprintf(server, sizeof(server), "%d", section->server->pid);
	for (unsigned i = 0; i < section->devices.n; i++) {
		const struct frame_device *device = &section->devices.items[i];

		query_format_pci(device, pci, sizeof(pci));
		device_uuid_text(device, uuid);
		query_quote_csv(device->name, name, sizeof(name));
		command_reply(conn, "%s,%u,%s,%s,%s,N/A", server, device->ordinal, pci, uuid, name);
	}
}

/* ---- JSON */

static json_t *device_json(const struct frame_device *device)
{
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	return json_pack("{s:o s:o s:s s:o s:o s:o s:o s:o}", "ordinal",
		json_integer(device->ordinal), "pci_id", json_text(device->pci_bus_id), "uuid",
		uuid, "name", json_text(device->name), "compute_mode",
		json_integer(device->compute_mode), "compute_capability",
		json_integer(device->compute_capability), "sms", json_integer(device->n_sms),
		"memory", json_amount(device->total_memory));
}

static json_t *devices_json(const struct devices *devices)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < devices->n; i++)
		json_add(&list, device_json(&devices->items[i]));
	return list;
}

/* `only' is NULL for all servers. */
static void query_reply_json(struct conn *conn, const struct server *only)
{
	json_t *servers = json_array();

	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon) {
		if (only ? server != only : !viewer_sees_server(conn, server))
			continue;
		json_add(&servers, json_pack("{s:o s:o}", "pid", json_integer(server->pid),
					   "devices", devices_json(&server->devices)));
	}
	scope_reply_json(conn, json_pack("{s:o s:o}", "default",
				       devices_json(&conn->daemon->devices), "servers", servers));
}

/* ---- all */

static void query_show(struct conn *conn, const struct section *section, enum form form)
{
	if (form == FORM_CSV)
		query_write_csv(conn, section);
	else
		query_print_section(conn, section);
}

static void query_show_server(struct conn *conn, const struct server *server, enum form form)
{
	const struct section section = {server, server->devices};

	query_show(conn, &section, form);
}

static void query_show_all(struct conn *conn, const struct server *only, enum form form)
{
	const struct section standard = {NULL, conn->daemon->devices};

	if (form == FORM_CSV)
		command_reply(conn, "Server,Device Ordinal,PCI IDs,UUID,Name,Attributes");
	if (only) {
		query_show_server(conn, only, form);
		return;
	}
	query_show(conn, &standard, form);
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon) {
		if (!viewer_sees_server(conn, server))
			continue;
		if (form == FORM_TABLE)
			command_reply(conn, "%s", "");
		query_show_server(conn, server, form);
	}
}

static bool query_read_options(
	struct conn *conn, const struct tokens *tokens, enum form *ret_form, const char **ret_pid)
{
	*ret_form = FORM_TABLE;
	*ret_pid = NULL;
	for (size_t i = 1; i < tokens->n; i++) {
		const char *token = tokens->item[i];

		if (strcmp(token, "--csv") == 0) {
			*ret_form = FORM_CSV;
		} else if (strcmp(token, "--json") == 0) {
			*ret_form = FORM_JSON;
		} else if (*token != '-' && !*ret_pid) {
			*ret_pid = token;
		} else {
			return command_fail(conn,
				"Unknown option \"%s\": device_query [PID] [--csv | --json]",
				token);
		}
	}
	return true;
}

void command_device_query(struct conn *conn, const struct tokens *tokens)
{
	const struct server *only = NULL;
	const char *pid;
	enum form form;

	if (!query_read_options(conn, tokens, &form, &pid))
		return;
	if (pid)
		only = scope_find_server(conn, tokens->item[0], pid, false);
	if (pid && !only)
		return;
	if (form == FORM_JSON) {
		query_reply_json(conn, only);
		return;
	}
	query_show_all(conn, only, form);
	if (conn->daemon->devices.n == 0 && !only)
		command_fail(conn, "The GPUs are not known: %s", conn->daemon->probe_failure.text);
}
