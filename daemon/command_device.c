/* SPDX-License-Identifier: Apache-2.0 */

/*
 * device_query: the GPUs that servers have. Loop thread.
 */

#include <stdio.h>
#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "commands.h"
#include "daemon.h"
#include "json.h"
#include "conn.h"
#include "server.h"

enum form {
	FORM_TABLE,
	FORM_CSV,
	FORM_JSON
};

/* Of the daemon (`server' is NULL) or of a server. */
struct section {
	const struct server *server;
	struct devices devices; /* not owned */
};

/* "0000:00.06.00", as NVIDIA's table has it. */
static void format_pci(const struct frame_device *device, char *text, size_t size)
{
	unsigned domain, bus, slot, function;

	if (sscanf(device->pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
		snprintf(text, size, "%04x:%02x.%02x.%02x", domain, bus, slot, function);
	else
		snprintf(text, size, "%s", device->pci_bus_id);
}

/* ---- a table */

static void print_device(struct peer *peer, const struct frame_device *device)
{
	char pci[48], uuid[DEVICE_UUID_TEXT];

	format_pci(device, pci, sizeof(pci));
	device_uuid_text(device, uuid);
	commander_reply(peer, "%-15u %-14s %-41s %-33s %s", device->ordinal, pci, uuid,
		device->name, "N/A");
}

static void print_section(struct peer *peer, const struct section *section)
{
	if (section->server)
		commander_reply(peer, "Server %d", section->server->pid);
	else
		commander_reply(peer, "Default");
	commander_reply(peer, "%-15s %-14s %-41s %-33s %s", "Device Ordinal", "PCI IDs", "UUID",
		"Name", "Attributes");
	for (unsigned i = 0; i < section->devices.n; i++)
		print_device(peer, &section->devices.items[i]);
}

/* ---- CSV */

/* In quotes, in which a quote is two. */
static void quote(const char *text, char *quoted, size_t size)
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

static void write_csv(struct peer *peer, const struct section *section)
{
	char server[16] = "Default", pci[48], uuid[DEVICE_UUID_TEXT];
	char name[2 * sizeof(((struct frame_device *)NULL)->name) + 3];

	if (section->server)
		snprintf(server, sizeof(server), "%d", section->server->pid);
	for (unsigned i = 0; i < section->devices.n; i++) {
		const struct frame_device *device = &section->devices.items[i];

		format_pci(device, pci, sizeof(pci));
		device_uuid_text(device, uuid);
		quote(device->name, name, sizeof(name));
		commander_reply(
			peer, "%s,%u,%s,%s,%s,N/A", server, device->ordinal, pci, uuid, name);
	}
}

/* ---- JSON */

static void write_device(struct json *json, const struct frame_device *device)
{
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	json_open(json, NULL, '{');
	json_number(json, "ordinal", device->ordinal);
	json_string(json, "pci_id", device->pci_bus_id);
	json_string(json, "uuid", uuid);
	json_string(json, "name", device->name);
	json_number(json, "compute_mode", device->compute_mode);
	json_number(json, "compute_capability", device->compute_capability);
	json_number(json, "sms", device->n_sms);
	json_number(json, "memory", (int64_t)MIN(device->total_memory, INT64_MAX));
	json_close(json, '}');
}

static void write_devices(struct json *json, const char *name, const struct devices *devices)
{
	json_open(json, name, '[');
	for (unsigned i = 0; i < devices->n; i++)
		write_device(json, &devices->items[i]);
	json_close(json, ']');
}

static void write_json(struct json *json, const struct section *section)
{
	if (!section->server) {
		write_devices(json, "default", &section->devices);
		json_open(json, "servers", '[');
		return;
	}
	json_open(json, NULL, '{');
	json_number(json, "pid", section->server->pid);
	write_devices(json, "devices", &section->devices);
	json_close(json, '}');
}

/* ---- all */

static void show(
	struct peer *peer, const struct section *section, enum form form, struct json *json)
{
	if (form == FORM_JSON)
		write_json(json, section);
	else if (form == FORM_CSV)
		write_csv(peer, section);
	else
		print_section(peer, section);
}

static void show_server(
	struct peer *peer, const struct server *server, enum form form, struct json *json)
{
	const struct section section = {server, server->devices};

	show(peer, &section, form, json);
}

static void show_all(
	struct peer *peer, const struct server *only, enum form form, struct json *json)
{
	const struct section standard = {NULL, peer->daemon->devices};

	if (form == FORM_CSV)
		commander_reply(peer, "Server,Device Ordinal,PCI IDs,UUID,Name,Attributes");
	if (!only || form == FORM_JSON)
		show(peer, &standard, form, json);
	if (only) {
		show_server(peer, only, form, json);
		return;
	}
	list_for_each (item, &peer->daemon->servers) {
		const struct server *server = container_of(item, struct server, link_in_daemon);

		if (!scope_sees_server(peer, server))
			continue;
		if (form == FORM_TABLE)
			commander_reply(peer, "%s", "");
		show_server(peer, server, form, json);
	}
}

static bool read_options(
	struct peer *peer, const struct words *words, enum form *ret_form, const char **ret_pid)
{
	*ret_form = FORM_TABLE;
	*ret_pid = NULL;
	for (size_t i = 1; i < words->n; i++) {
		const char *word = words->word[i];

		if (strcmp(word, "--csv") == 0) {
			*ret_form = FORM_CSV;
		} else if (strcmp(word, "--json") == 0) {
			*ret_form = FORM_JSON;
		} else if (*word != '-' && !*ret_pid) {
			*ret_pid = word;
		} else {
			commander_fail(peer,
				"Unknown option \"%s\": device_query [PID] [--csv | --json]", word);
			return false;
		}
	}
	return true;
}

void command_device_query(struct peer *peer, const struct words *words)
{
	const struct server *only = NULL;
	struct json json = {0};
	const char *pid;
	enum form form;

	if (!read_options(peer, words, &form, &pid))
		return;
	if (pid)
		only = scope_find_server(peer, words->word[0], pid, false);
	if (pid && !only)
		return;
	if (form == FORM_JSON)
		json_open(&json, NULL, '{');
	show_all(peer, only, form, &json);
	if (form == FORM_JSON) {
		json_close(&json, ']');
		json_close(&json, '}');
		scope_reply_json(peer, &json);
	} else if (scope_devices(peer)->n == 0 && !only) {
		commander_fail(
			peer, "The GPUs are not known: %s", peer->daemon->probe_failure.text);
	}
}
