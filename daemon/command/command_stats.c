/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The commands stats and metrics. Loop thread.
 *
 * Invariant: a user sees the counters of the clients that ps shows to that user.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "daemon/text/amount.h"
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
#include "daemon/watch/metrics.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

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
	[COUNTER_YIELDED] = "yielded_ns",
	[COUNTER_MOVES] = "moves",
	[COUNTER_AWAY] = "away_ns",
};

/* ---- JSON */

/* Takes the object. A server is a process of a user, so its numbers can be anything. */
static json_t *with_counters(json_t *object, const struct counts *counts)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		json_set(&object, names[i], json_amount(counts->counters[i]));
	return object;
}

static json_t *context_json(
	const struct server *server, const struct client *client, const struct context *context)
{
	/* clients_add_context() has checked the ordinal. */
	const struct frame_device *device = &server->devices.items[context->ordinal];
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	return json_pack("{s:o s:s s:o s:o s:o s:o s:o s:o s:o s:o}", "device",
		json_integer(context->ordinal), "uuid", uuid, "sms", json_integer(context->n_sms),
		"device_sms", json_integer(device->n_sms), "memory",
		json_amount(client->counts.memory[context->ordinal]), "memory_peak",
		json_amount(client->counts.memory_peak[context->ordinal]), "away",
		json_amount(client->counts.away[context->ordinal]), "memory_limit",
		context->memory == MEMORY_ALL ? json_null() : json_amount(context->memory),
		"share_sms", json_number_or_null(client->counts.share_sms[context->ordinal]),
		"slowdown", json_thousandths(client->counts.slowdown[context->ordinal]));
}

static json_t *client_json(
	const struct conn *conn, const struct server *server, const struct client *client)
{
	const struct group *group = groups_get(&conn->daemon->groups, client->group);
	json_t *gpus = json_array(), *object;
	char name[SERVER_NAME_MAX];

	slot_name(server->slot, name);
	/* The client's number is unique in the life of the daemon and its servers, other than the
	 * PID. */
	object = with_counters(
		json_pack("{s:o s:o s:s s:o s:o s:s? s:o s:o}", "pid", json_integer(client->pid),
			"server", json_integer(server->pid), "server_name", name, "client",
			json_amount(client->id), "uid", json_integer(client->uid), "group",
			group ? group->name : NULL, "command", json_text(client->command), "kernel",
			json_text_or_null(client->kernel)),
		&client->counts);

	for (unsigned i = 0; i < client->n_contexts; i++)
		json_add(&gpus, context_json(server, client, &client->contexts[i]));
	json_set(&object, "stays", json_text_or_null(client_stays(client)));
	json_set(&object, "restart", json_text_or_null(client->restart));
	json_set(&object, "gpus", gpus);
	return object;
}

static void add_clients(const struct conn *conn, struct json_stream *stream)
{
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (viewer_sees_client(conn, server, client))
				json_stream_add(stream, client_json(conn, server, client));
}

static json_t *servers_json(const struct conn *conn)
{
	json_t *servers = json_array();

	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon) {
		char name[SERVER_NAME_MAX];

		if (!viewer_sees_server(conn, server))
			continue;
		slot_name(server->slot, name);
		json_add(&servers,
			json_pack("{s:o s:s s:o s:o s:o}", "server", json_integer(server->pid),
				"server_name", name, "uid", json_integer(server->tenant->uid),
				"store", json_amount(server->store_used), "store_limit",
				json_amount(server->store_limit)));
	}
	return servers;
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

	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (is_of(client, what))
				counts_add(&sum, &client->counts);
	return sum;
}

static json_t *users_json(const struct conn *conn)
{
	static const struct counts none;
	json_t *users = json_array();

	list_each (const struct tenant, tenant, &conn->daemon->tenants, link) {
		const struct usage *usage = usage_find(&conn->daemon->usages, tenant->uid);
		struct counts sum;

		if (!viewer_sees_user(conn, tenant->uid))
			continue;
		sum = sum_of(conn->daemon, usage ? &usage->ended : &none, is_of_user, tenant);
		json_add(&users,
			with_counters(json_pack("{s:o}", "uid", json_integer(tenant->uid)), &sum));
	}
	return users;
}

static json_t *groups_json(const struct conn *conn)
{
	json_t *groups = json_array();

	list_each (const struct group, group, &conn->daemon->groups.list, link) {
		struct counts sum = sum_of(conn->daemon, &group->ended, is_of_group, group);

		json_add(&groups, with_counters(json_pack("{s:s}", "group", group->name), &sum));
	}
	return groups;
}

static void reply_json(struct conn *conn)
{
	struct json_stream stream = {0};

	json_stream_put(&stream, "{\"time_ns\":");
	json_stream_add(&stream, json_amount(uv_hrtime()));
	json_stream_put(&stream, ",\"clients\":[");
	add_clients(conn, &stream);
	json_stream_put(&stream, "],\"servers\":");
	json_stream_add(&stream, servers_json(conn));
	json_stream_put(&stream, ",\"users\":");
	json_stream_add(&stream, users_json(conn));
	if (viewer_sees_all(conn)) {
		json_stream_put(&stream, ",\"groups\":");
		json_stream_add(&stream, groups_json(conn));
	}
	json_stream_put(&stream, "}");
	scope_reply_stream(conn, &stream);
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
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (viewer_sees_client(conn, server, client))
				print_client(conn, client);
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

void command_metrics(struct conn *conn, const struct tokens *tokens)
{
	_cleanup_free_ char *page = NULL;
	size_t size;

	if (!counting_is_fresh(conn, tokens->item[0]))
		return;
	page = metrics_page(conn->daemon, conn, &size);
	if (!page) {
		command_fail(conn, "The MPS daemon is out of memory: try again later");
		return;
	}
	/* The last line of a reply gets its end there. */
	if (size > 0 && page[size - 1] == '\n')
		page[size - 1] = '\0';
	command_reply_text(conn, page);
}
