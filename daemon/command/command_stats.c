/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command stats. Loop thread.
 *
 * Invariant: a user sees the counters of the clients that ps shows to that user.
 */

#include <stdio.h>
#include <string.h>

#include "command_reply.h"
#include "command_scope.h"
#include "commands.h"
#include "daemon/text/amount.h"
#include "daemon/text/escape.h"
#include "daemon/text/json.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/counting.h"

#define COMMAND_TEXT 256
/* The width of a column of the table, more than an amount has. */
#define COLUMN 10
_Static_assert(AMOUNT_TEXT <= COLUMN, "an amount fits into its column");

/* The names in JSON, in the order of enum counter. */
static const char *const names[COUNTERS] = {
	[COUNTER_LAUNCHES] = "launches",
	[COUNTER_GRAPH_LAUNCHES] = "graph_launches",
	[COUNTER_BATCHES] = "batches",
	[COUNTER_COPIES_IN] = "copies_in",
	[COUNTER_BYTES_IN] = "bytes_in",
	[COUNTER_COPIES_OUT] = "copies_out",
	[COUNTER_BYTES_OUT] = "bytes_out",
	[COUNTER_COPIES_WITHIN] = "copies_within",
	[COUNTER_BYTES_WITHIN] = "bytes_within",
	[COUNTER_FILLS] = "fills",
	[COUNTER_WAITS] = "waits",
	[COUNTER_ERRORS] = "errors",
	[COUNTER_BUSY] = "busy_ns",
	[COUNTER_DELAYED] = "delayed_ns",
};

/* ---- JSON */

/* A server is a process of a user, so its numbers can be anything. */
static void write_amount(struct json *json, const char *name, uint64_t amount)
{
	json_number(json, name, (int64_t)MIN(amount, (uint64_t)INT64_MAX));
}

static void write_counters(struct json *json, const struct counts *counts)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		write_amount(json, names[i], counts->counters[i]);
}

static void write_context(struct json *json, const struct server *server,
	const struct client *client, const struct context *context)
{
	char uuid[DEVICE_UUID_TEXT];

	/* clients_add_context() has checked the ordinal. */
	device_uuid_text(&server->devices.items[context->ordinal], uuid);
	json_open(json, NULL, '{');
	json_number(json, "device", context->ordinal);
	json_string(json, "uuid", uuid);
	json_number(json, "sms", context->n_sms);
	json_number(json, "device_sms", server->devices.items[context->ordinal].n_sms);
	write_amount(json, "memory", client->counts.memory[context->ordinal]);
	write_amount(json, "memory_peak", client->counts.memory_peak[context->ordinal]);
	if (context->memory == MEMORY_ALL)
		json_null(json, "memory_limit");
	else
		write_amount(json, "memory_limit", context->memory);
	json_close(json, '}');
}

static void write_client(struct conn *conn, struct json *json, const struct server *server,
	const struct client *client)
{
	const struct group *group = groups_get(&conn->daemon->groups, client->group);

	json_open(json, NULL, '{');
	json_number(json, "pid", client->pid);
	json_number(json, "server", server->pid);
	/* Unique in the life of the daemon and its servers, other than the PID. */
	write_amount(json, "client", client->id);
	json_number(json, "uid", client->uid);
	if (group)
		json_string(json, "group", group->name);
	else
		json_null(json, "group");
	json_string(json, "command", client->command);
	write_counters(json, &client->counts);
	json_open(json, "gpus", '[');
	for (unsigned i = 0; i < client->n_contexts; i++)
		write_context(json, server, client, &client->contexts[i]);
	json_close(json, ']');
	json_close(json, '}');
}

static void write_clients(struct conn *conn, struct json *json)
{
	json_open(json, "clients", '[');
	list_for_each (item, &conn->daemon->servers) {
		const struct server *server = container_of(item, struct server, link_in_daemon);

		list_for_each (inner, &server->clients) {
			const struct client *client = container_of(inner, struct client, link);

			if (viewer_sees_client(conn, server, client))
				write_client(conn, json, server, client);
		}
	}
	json_close(json, ']');
}

/* ---- sums: present clients and those that have ended */

static bool is_of_user(const struct client *client, const void *tenant)
{
	return client->uid == ((const struct tenant *)tenant)->uid;
}

static bool is_of_group(const struct client *client, const void *group)
{
	return client->group == ((const struct group *)group)->id;
}

static struct counts sum_of(const struct daemon *daemon, const struct counts *ended,
	bool (*is_of)(const struct client *client, const void *what), const void *what)
{
	struct counts sum = *ended;

	list_for_each (item, &daemon->servers) {
		const struct server *server = container_of(item, struct server, link_in_daemon);

		list_for_each (inner, &server->clients) {
			const struct client *client = container_of(inner, struct client, link);

			if (is_of(client, what))
				counts_add(&sum, &client->counts);
		}
	}
	return sum;
}

static void write_users(struct conn *conn, struct json *json)
{
	static const struct counts none;

	json_open(json, "users", '[');
	list_for_each (item, &conn->daemon->tenants) {
		const struct tenant *tenant = container_of(item, struct tenant, link);
		const struct usage *usage = usage_find(&conn->daemon->usages, tenant->uid);
		const struct counts *ended = usage ? &usage->ended : &none;
		struct counts sum;

		if (!viewer_sees_user(conn, tenant->uid))
			continue;
		sum = sum_of(conn->daemon, ended, is_of_user, tenant);
		json_open(json, NULL, '{');
		json_number(json, "uid", tenant->uid);
		write_counters(json, &sum);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void write_groups(struct conn *conn, struct json *json)
{
	json_open(json, "groups", '[');
	list_for_each (item, &conn->daemon->groups.list) {
		const struct group *group = container_of(item, struct group, link);
		struct counts sum = sum_of(conn->daemon, &group->ended, is_of_group, group);

		json_open(json, NULL, '{');
		json_string(json, "group", group->name);
		write_counters(json, &sum);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void reply_json(struct conn *conn)
{
	struct json json = {0};

	json_open(&json, NULL, '{');
	write_amount(&json, "time_ns", uv_hrtime());
	write_clients(conn, &json);
	write_users(conn, &json);
	if (viewer_sees_all(conn))
		write_groups(conn, &json);
	json_close(&json, '}');
	scope_reply_json(conn, &json);
}

/* ---- a table */

static void print_header(struct conn *conn)
{
	command_reply(conn, "%-10s%-10s%-10s%-10s%-10s%-10s%-10s%-10s%-10s%-10s%-10s%s", "PID",
		"UID", "LAUNCHES", "GRAPHS", "IN", "OUT", "WITHIN", "MEMORY", "PEAK", "BUSY",
		"ERRORS", "COMMAND");
}

static uint64_t sum_devices(const uint64_t amounts[DEVICES_MAX])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		sum += amounts[i];
	return sum;
}

static void print_client(struct conn *conn, const struct client *client)
{
	const uint64_t *counters = client->counts.counters;
	const struct {
		uint64_t amount;
		unsigned step;
	} columns[] = {
		{counters[COUNTER_LAUNCHES], 1000},
		{counters[COUNTER_GRAPH_LAUNCHES], 1000},
		{counters[COUNTER_BYTES_IN], 1024},
		{counters[COUNTER_BYTES_OUT], 1024},
		{counters[COUNTER_BYTES_WITHIN], 1024},
		{sum_devices(client->counts.memory), 1024},
		{sum_devices(client->counts.memory_peak), 1024},
	};
	char line[COLUMN * ARRAY_SIZE(columns) + 1] = "", command[COMMAND_TEXT];
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		char text[AMOUNT_TEXT];

		amount_text(columns[i].amount, columns[i].step, text);
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%-*s", COLUMN, text);
	}
	escape_word(client->command, command, sizeof(command));
	command_reply(conn, "%-9d %-9u %s%-9.2f %-9llu %s", client->pid, client->uid, line,
		(double)counters[COUNTER_BUSY] * 1e-9, (unsigned long long)counters[COUNTER_ERRORS],
		command);
}

static void reply_table(struct conn *conn)
{
	print_header(conn);
	list_for_each (item, &conn->daemon->servers) {
		const struct server *server = container_of(item, struct server, link_in_daemon);

		list_for_each (inner, &server->clients) {
			const struct client *client = container_of(inner, struct client, link);

			if (viewer_sees_client(conn, server, client))
				print_client(conn, client);
		}
	}
}

void command_stats(struct conn *conn, const struct tokens *tokens)
{
	bool is_json = tokens->n == 2;

	if (is_json && strcmp(tokens->item[1], "--json") != 0) {
		command_fail(conn, "Unknown option \"%s\": stats [--json]", tokens->item[1]);
		return;
	}
	if (!counting_is_fresh(conn, is_json ? "stats --json" : "stats"))
		return;
	if (is_json)
		reply_json(conn);
	else
		reply_table(conn);
}
