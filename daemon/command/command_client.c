/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about clients. Loop thread.
 *
 * Invariant: a name that a program has chosen stays within its column and its
 * line.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "limit_text.h"
#include "daemon/text/escape.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/counting.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"
#include "daemon/reply/earlier_servers.h"

#define COMMAND_TEXT 256

void command_get_client_list(struct conn *conn, const struct tokens *tokens)
{
	const struct server *server =
		scope_find_server(conn, tokens->item[0], tokens->item[1], false);

	if (!server)
		return;
	list_each (const struct client, client, &server->clients, link)
		if (viewer_sees_client(conn, server, client))
			command_reply(conn, "%d", client->pid);
}

/* ---- get_device_client_list */

static bool client_has_context(const struct client *client, uint32_t ordinal)
{
	for (unsigned i = 0; i < client->n_contexts; i++)
		if (client->contexts[i].ordinal == ordinal)
			return true;
	return false;
}

/* A client has exactly one context on each GPU, which is number 1. */
static void list_device_clients(
	struct conn *conn, const struct server *server, const struct frame_device *device)
{
	const char *colon = strchr(device->pci_bus_id, ':');

	command_reply(conn, "[%u] %s, %s", device->ordinal, colon ? colon + 1 : device->pci_bus_id,
		device->name);
	list_each (const struct client, client, &server->clients, link)
		if (viewer_sees_client(conn, server, client) &&
			client_has_context(client, device->ordinal))
			command_reply(conn, "%d.1", client->pid);
}

static void list_server_devices(struct conn *conn, const struct server *server)
{
	for (unsigned i = 0; i < server->devices.n; i++)
		list_device_clients(conn, server, &server->devices.items[i]);
}

void command_get_device_client_list(struct conn *conn, const struct tokens *tokens)
{
	if (tokens->n == 2) {
		const struct server *only =
			scope_find_server(conn, tokens->item[0], tokens->item[1], false);

		if (only)
			list_server_devices(conn, only);
		return;
	}
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		if (viewer_sees_server(conn, server))
			list_server_devices(conn, server);
}

/* ---- ps */

struct ps_options {
	bool is_long, is_json;
	const char *pid; /* of a server; NULL: all */
};

/* A client on a GPU. */
struct row {
	const struct server *server;
	const struct client *client;
	const struct context *context;
	const struct frame_device *device;
};

static const char *client_group_name(const struct conn *conn, const struct client *client)
{
	const struct group *group = groups_get(&conn->daemon->groups, client->group);

	return group ? group->name : NULL;
}

static const char *client_state_name(const struct conn *conn, const struct client *client)
{
	const struct client_suspension *suspension = &client->suspension;

	if (client->termination != TERMINATION_NONE)
		return "TERMINATED";
	if (!suspension->is_wanted)
		return client_is_on_probation(client, conn->daemon) ? "PROBATION" : "ACTIVE";
	return suspension->state >= SUSPENSION_AT_REST ? "SUSPENDED" : "SUSPENDING";
}

static void ps_print_header(struct conn *conn, const struct ps_options *options)
{
	command_reply(conn, "%-10s%-10s%-15s%-26s%-15s%s%-15s", "PID", "ID", "SERVER", "DEVICE",
		"NAMESPACE",
		options->is_long ? "SMS     MEMORY      PRIORITY  GROUP               STATE       "
				   "SHARE   SLOWDOWN  RESTART "
				 : "",
		"COMMAND");
}

/* Whether a restart of the server would move the client. */
static const char *restart_word(const struct client *client)
{
	if (!client->restart[0])
		return "-";
	if (strncmp(client->restart, MAY_STAY_TEXT, strlen(MAY_STAY_TEXT)) == 0)
		return "maybe";
	return strcmp(client->restart, MOVES_TEXT) == 0 ? MOVES_TEXT : "no";
}

/* The limits in effect. */
static void ps_format_limits(
	const struct conn *conn, const struct row *row, char *text, size_t size)
{
	const char *group = client_group_name(conn, row->client);
	uint32_t sms = row->client->counts.share_sms[row->context->ordinal];
	uint32_t slowdown = row->client->counts.slowdown[row->context->ordinal];
	char memory[SIZE_TEXT_MAX] = "-", share_text[16] = "-", slowdown_text[16] = "-";

	if (sms > 0)
		snprintf(share_text, sizeof(share_text), "%u", sms);
	if (slowdown > 0)
		snprintf(slowdown_text, sizeof(slowdown_text), "%.2f", slowdown / 1000.0);
	if (row->context->memory != MEMORY_ALL)
		format_size(row->context->memory, memory, sizeof(memory));
	snprintf(text, size, "%-7u %-11s %-9d %-19s %-11s %-7s %-9s %-7s ", row->context->n_sms,
		memory, row->context->priority, group ? group : "-",
		client_state_name(conn, row->client), share_text, slowdown_text,
		restart_word(row->client));
}

static void ps_print_row(struct conn *conn, const struct row *row, const struct ps_options *options)
{
	char uuid[DEVICE_UUID_TEXT], command[COMMAND_TEXT], effective[GROUP_NAME_MAX + 128] = "";

	scope_short_uuid(row->device, uuid);
	escape_word(row->client->command, command, sizeof(command));
	if (options->is_long)
		ps_format_limits(conn, row, effective, sizeof(effective));
	command_reply(conn, "%-9d %-9u %-14d %-25s %-14llu %s%-15s", row->client->pid,
		row->context->session, row->server->pid, uuid,
		(unsigned long long)row->client->pid_namespace, effective, command);
}

/* What the servers were asked for. */
static void ps_add_details(json_t **object, const struct row *row)
{
	const struct counts *counts = &row->client->counts;
	uint32_t device = row->context->ordinal;

	json_set(object, "kernel", json_text_or_null(row->client->kernel));
	json_set(object, "share_sms", json_number_or_null(counts->share_sms[device]));
	json_set(object, "slowdown", json_thousandths(counts->slowdown[device]));
	json_set(object, "away", json_amount(counts->away[device]));
	json_set(object, "away_ns", json_amount(counts->counters[COUNTER_AWAY]));
	json_set(object, "moves", json_amount(counts->counters[COUNTER_MOVES]));
	json_set(object, "stays", json_text_or_null(client_stays(row->client)));
	json_set(object, "restart", json_text_or_null(row->client->restart));
}

static json_t *ps_row_json(
	const struct conn *conn, const struct row *row, const struct ps_options *options)
{
	const struct context *context = row->context;
	json_t *object;
	char uuid[DEVICE_UUID_TEXT], name[SERVER_NAME_MAX];

	device_uuid_text(row->device, uuid);
	slot_name(row->server->slot, name);
	object = json_pack("{s:o s:o s:o s:s s:o s:o s:s s:o s:o s:o s:o s:o s:s? s:s}", "pid",
		json_integer(row->client->pid), "id", json_integer(context->session), "server",
		json_integer(row->server->pid), "server_name", name, "uid",
		json_integer(row->client->uid), "device", json_integer(context->ordinal), "uuid",
		uuid, "namespace", json_integer((json_int_t)row->client->pid_namespace), "command",
		json_text(row->client->command), "sms", json_integer(context->n_sms),
		"memory_limit",
		context->memory == MEMORY_ALL ? json_null() : json_amount(context->memory),
		"priority", json_integer(context->priority), "group",
		client_group_name(conn, row->client), "state",
		client_state_name(conn, row->client));
	if (options->is_long)
		ps_add_details(&object, row);
	return object;
}

static void ps_show_client(struct conn *conn, struct row *row, const struct ps_options *options,
	struct json_stream *json)
{
	for (unsigned i = 0; i < row->client->n_contexts; i++) {
		row->context = &row->client->contexts[i];
		/* clients_add_context() has checked the ordinal. */
		row->device = &row->server->devices.items[row->context->ordinal];
		if (options->is_json)
			json_stream_add(json, ps_row_json(conn, row, options));
		else
			ps_print_row(conn, row, options);
	}
}

static void ps_show_server(struct conn *conn, const struct server *server,
	const struct ps_options *options, struct json_stream *json)
{
	list_each (struct client, client, &server->clients, link) {
		struct row row = {.server = server, .client = client};

		if (viewer_sees_client(conn, server, row.client))
			ps_show_client(conn, &row, options, json);
	}
}

static bool ps_read_options(
	struct conn *conn, const struct tokens *tokens, struct ps_options *options)
{
	for (size_t i = 1; i < tokens->n; i++) {
		const char *token = tokens->item[i];

		if (strcmp(token, "-l") == 0) {
			options->is_long = true;
		} else if (strcmp(token, "--json") == 0) {
			options->is_json = true;
		} else if (strcmp(token, "-p") == 0 && i + 1 < tokens->n) {
			options->pid = tokens->item[++i];
		} else {
			return command_fail(
				conn, "Unknown option \"%s\": ps [-p PID] [-l] [--json]", token);
		}
	}
	return true;
}

/* Only the long form has what servers have to be asked for. */
static bool ps_is_fresh(
	struct conn *conn, const struct ps_options *options, const struct server *only)
{
	const char *json = options->is_json ? " --json" : "";
	char command[40];

	if (!options->is_long)
		return true;
	if (only)
		snprintf(command, sizeof(command), "ps -l%s -p %d", json, only->pid);
	else
		snprintf(command, sizeof(command), "ps -l%s", json);
	return counting_is_fresh(conn, command);
}

void command_ps(struct conn *conn, const struct tokens *tokens)
{
	const struct server *only = NULL;
	struct ps_options options = {0};
	struct json_stream json = {0};

	if (!ps_read_options(conn, tokens, &options))
		return;
	if (options.pid)
		only = scope_find_server(conn, tokens->item[0], options.pid, false);
	if (options.pid && !only)
		return;
	if (!ps_is_fresh(conn, &options, only))
		return;
	if (options.is_json)
		json_stream_put(&json, "{\"clients\":[");
	else
		ps_print_header(conn, &options);
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		if (!only || only == server)
			ps_show_server(conn, server, &options, &json);
	if (!options.is_json && !only)
		earlier_servers_reply(conn);
	if (!options.is_json)
		return;
	json_stream_put(&json, "],\"earlier_servers\":");
	json_stream_add(&json, earlier_servers_json(conn));
	json_stream_put(&json, "}");
	scope_reply_stream(conn, &json);
}
