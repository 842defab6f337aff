/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the metrics. Loop thread.
 *
 * Invariant: each family is written once, and its samples follow it.
 */

#include <inttypes.h>
#include <string.h>

#include "frame.h"
#include "metrics.h"
#include "spec_hash.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"

#define NAME_MAX_SIZE 64
#define HELP_MAX_SIZE 160

/* ---- counters of clients, users and groups */

static const struct family {
	const char *name, *help;
	bool is_time;
	unsigned n; /* series of each row */
	struct {
		enum counter counter;
		const char *direction;
	} series[3];
} families[] = {
	{"launches_total", "kernels, without those of graphs", false, 1,
		{{COUNTER_LAUNCHES, NULL}}},
	{"graph_launches_total", "launches of executable graphs", false, 1,
		{{COUNTER_GRAPH_LAUNCHES, NULL}}},
	{"launch_batches_total", "groups of launches that the driver got in one call", false, 1,
		{{COUNTER_BATCHES, NULL}}},
	{"copies_total",
		"copies to a GPU (in), from a GPU (out), and between GPU memories (within)", false,
		3,
		{{COUNTER_COPIES_IN, "in"}, {COUNTER_COPIES_OUT, "out"},
			{COUNTER_COPIES_WITHIN, "within"}}},
	{"copied_bytes_total", "bytes of these copies", false, 3,
		{{COUNTER_BYTES_IN, "in"}, {COUNTER_BYTES_OUT, "out"},
			{COUNTER_BYTES_WITHIN, "within"}}},
	{"fills_total", "fills of memory", false, 1, {{COUNTER_FILLS, NULL}}},
	{"waits_total", "sleeps of a thread until a GPU has reached a point", false, 1,
		{{COUNTER_WAITS, NULL}}},
	{"errors_total", "calls that returned an error", false, 1, {{COUNTER_ERRORS, NULL}}},
	{"busy_seconds_total", "time in which a stream had work on a GPU", true, 1,
		{{COUNTER_BUSY, NULL}}},
	{"yielded_seconds_total", "time of a whole GPU that was left to clients in the foreground",
		true, 1, {{COUNTER_YIELDED, NULL}}},
	{"moves_total", "how often memory has left a GPU for other clients", false, 1,
		{{COUNTER_MOVES, NULL}}},
	{"away_seconds_total", "time in which memory was away from a GPU", true, 1,
		{{COUNTER_AWAY, NULL}}},
};

static void write_family(FILE *out, const char *kind, const struct family *family,
	const struct metrics_row *rows, unsigned n_rows)
{
	char name[NAME_MAX_SIZE], help[HELP_MAX_SIZE];

	snprintf(name, sizeof(name), "mps_%s_%s", kind, family->name);
	snprintf(help, sizeof(help), "Of a %s: %s", kind, family->help);
	exposition_family(out, name, "counter", help);
	for (unsigned i = 0; i < n_rows; i++)
		for (unsigned k = 0; k < family->n; k++) {
			uint64_t value = rows[i].counters[family->series[k].counter];
			struct labels labels = rows[i].labels;

			if (family->series[k].direction)
				labels_add(&labels, "direction", family->series[k].direction);
			if (family->is_time)
				exposition_ns(out, name, &labels, value);
			else
				exposition_number(out, name, &labels, value);
		}
}

static void write_counters(
	FILE *out, const char *kind, const struct metrics_row *rows, unsigned n_rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		write_family(out, kind, &families[i], rows, n_rows);
}

/* ---- clients on GPUs */

/* Whether an earlier context of the client is on a GPU with the same UUID, which a server of an
 * ordinary user can claim. */
static bool is_repeated(const struct metrics_row *row, unsigned nth)
{
	const struct context *contexts = row->client->contexts;
	const struct frame_device *devices = row->server->devices.items;
	const uint8_t *uuid = devices[contexts[nth].ordinal].uuid;

	for (unsigned i = 0; i < nth; i++)
		if (memcmp(devices[contexts[i].ordinal].uuid, uuid, sizeof(devices->uuid)) == 0)
			return true;
	return false;
}

static const struct {
	const char *name, *help;
} client_gauges[] = {
	{"mps_client_memory_bytes", "GPU memory that the client has"},
	{"mps_client_memory_peak_bytes", "The most GPU memory that the client had at a time"},
	{"mps_client_memory_away_bytes", "Of these, bytes that are in host memory meanwhile"},
	{"mps_client_memory_limit_bytes",
		"How much GPU memory the client may have; without a limit there is no sample"},
	{"mps_client_sms", "SMs that the kernels of the client run on"},
	{"mps_client_share_sms", "SMs that the kernels of the background client use at present; "
				 "other clients have no "
				 "sample"},
};

/* A value without a sample. */
#define NONE UINT64_MAX

static uint64_t or_none(uint32_t value)
{
	return value > 0 ? value : NONE;
}

static void write_contexts(FILE *out, size_t gauge, const struct metrics_row *row)
{
	for (unsigned i = 0; i < row->client->n_contexts; i++) {
		const struct context *context = &row->client->contexts[i];
		const uint64_t values[ARRAY_SIZE(client_gauges)] = {
			row->client->counts.memory[context->ordinal],
			row->client->counts.memory_peak[context->ordinal],
			row->client->counts.away[context->ordinal], context->memory, context->n_sms,
			or_none(row->client->counts.share_sms[context->ordinal])};
		struct labels labels = row->labels;
		char uuid[DEVICE_UUID_TEXT];

		/* There is no limit, or no share. */
		if (is_repeated(row, i) || values[gauge] == NONE)
			continue;
		device_uuid_text(&row->server->devices.items[context->ordinal], uuid);
		labels_add(&labels, "gpu", uuid);
		exposition_number(out, client_gauges[gauge].name, &labels, values[gauge]);
	}
}

static void write_clients_on_gpus(const struct metrics *metrics, FILE *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(client_gauges); i++) {
		exposition_family(out, client_gauges[i].name, "gauge", client_gauges[i].help);
		for (unsigned k = 0; k < metrics->n_clients; k++)
			write_contexts(out, i, &metrics->clients[k]);
	}
}

/* ---- GPUs */

static void write_gpu_info(const struct metrics *metrics, FILE *out)
{
	exposition_family(out, "mps_gpu_info", "gauge", "A GPU, its name and its place; always 1");
	for (unsigned i = 0; i < metrics->n_gpus; i++) {
		const struct metrics_gpu *gpu = &metrics->gpus[i];
		struct labels labels = {0};

		labels_add(&labels, "gpu", gpu->uuid);
		labels_add(&labels, "name", gpu->device->name);
		labels_add(&labels, "pci_bus_id", gpu->device->pci_bus_id);
		exposition_number(out, "mps_gpu_info", &labels, 1);
	}
}

static void write_slowdowns(const struct metrics *metrics, FILE *out)
{
	static const char name[] = "mps_gpu_foreground_slowdown_ratio";

	exposition_family(out, name, "gauge",
		"How long work of the most disturbed client takes, relative to its time beside a "
		"small share of background work; without background clients there is no sample");
	for (unsigned i = 0; i < metrics->n_gpus; i++) {
		const struct metrics_gpu *gpu = &metrics->gpus[i];
		struct labels labels = {0};

		labels_add(&labels, "gpu", gpu->uuid);
		if (gpu->slowdown > 0)
			exposition_ns(out, name, &labels, gpu->slowdown * UINT64_C(1000000));
	}
}

static void write_gpus(const struct metrics *metrics, FILE *out)
{
	static const struct {
		const char *name, *help;
	} gauges[] = {
		{"mps_gpu_memory_bytes", "Memory of the GPU"},
		{"mps_gpu_sms", "SMs of the GPU"},
		{"mps_gpu_clients", "Clients that use the GPU"},
		{"mps_gpu_clients_memory_bytes", "Memory of the GPU that the clients have"},
		{"mps_gpu_background_sms", "SMs that background clients use at present; without "
					   "such clients there is no "
					   "sample"},
	};

	write_gpu_info(metrics, out);
	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
		exposition_family(out, gauges[i].name, "gauge", gauges[i].help);
		for (unsigned k = 0; k < metrics->n_gpus; k++) {
			const struct metrics_gpu *gpu = &metrics->gpus[k];
			const uint64_t values[ARRAY_SIZE(gauges)] = {gpu->device->total_memory,
				gpu->device->n_sms, gpu->n_clients, gpu->memory,
				or_none(gpu->share_sms)};
			struct labels labels = {0};

			if (values[i] == NONE)
				continue;

			labels_add(&labels, "gpu", gpu->uuid);
			exposition_number(out, gauges[i].name, &labels, values[i]);
		}
	}
	write_slowdowns(metrics, out);
}

/* ---- events */

static const struct event {
	const char *name, *help;
} events[USAGE_EVENTS] = {
	[USAGE_SERVER_START] = {"server_starts_total", "servers that were started"},
	[USAGE_SERVER_FAILURE] = {"server_failures_total",
		"servers that ended by themselves, other than by a GPU fault"},
	[USAGE_FAULT] = {"gpu_faults_total", "GPU faults, each of which ended a server"},
	[USAGE_PROBATION] = {"probations_total",
		"programs that were put on probation because of a GPU fault"},
	[USAGE_QUARANTINE] = {"quarantines_total",
		"programs that were quarantined because of their GPU faults"},
	[USAGE_CLIENT] = {"accepted_clients_total", "clients that came to a server"},
	[USAGE_REFUSAL] = {"refused_clients_total", "clients that were refused"},
};

/* `of' begins the name of each family, `whose' its help. */
static void begin_events(FILE *out, unsigned i, const char *of, const char *whose, char *name)
{
	char help[HELP_MAX_SIZE];

	snprintf(name, NAME_MAX_SIZE, "%s_%s", of, events[i].name);
	snprintf(help, sizeof(help), "Of %s: %s", whose, events[i].help);
	exposition_family(out, name, "counter", help);
}

static void write_events_of_users(const struct metrics *metrics, FILE *out)
{
	char name[NAME_MAX_SIZE];

	for (unsigned i = 0; i < USAGE_EVENTS; i++) {
		begin_events(out, i, "mps_user", "a user", name);
		for (unsigned k = 0; k < metrics->n_users; k++)
			exposition_number(out, name, &metrics->users[k].labels,
				metrics->users[k].usage->events[i]);
	}
}

static void write_events(const struct metrics *metrics, FILE *out)
{
	char name[NAME_MAX_SIZE];

	for (unsigned i = 0; i < USAGE_EVENTS; i++) {
		begin_events(out, i, "mps", "all users", name);
		exposition_number(out, name, NULL, metrics->daemon->usages.events[i]);
	}
}

/* A family of one sample. */
static void write_gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
	exposition_family(out, name, "gauge", help);
	exposition_number(out, name, NULL, value);
}

/* ---- the daemon */

static void write_daemon(const struct metrics *metrics, FILE *out)
{
	const struct daemon *daemon = metrics->daemon;
	struct labels labels = {0};
	char hash[20];

	snprintf(hash, sizeof(hash), "%016" PRIx64, (uint64_t)SPEC_HASH);
	labels_add(&labels, "version", MPS_VERSION);
	labels_add_number(&labels, "protocol", FRAME_VERSION);
	labels_add(&labels, "spec", hash);
	exposition_family(out, "mps_build_info", "gauge", "The version of the daemon; always 1");
	exposition_number(out, "mps_build_info", &labels, 1);
	exposition_family(out, "mps_daemon_start_time_seconds", "gauge",
		"When the daemon was started, in seconds since 1970");
	exposition_ns(out, "mps_daemon_start_time_seconds", NULL, daemon->start_time_ns);
	exposition_family(
		out, "mps_daemon_uptime_seconds", "gauge", "How long the daemon has been running");
	exposition_ns(out, "mps_daemon_uptime_seconds", NULL,
		(uv_now(&daemon->loop) - daemon->start_ms) * 1000000);
}

static unsigned count_waiting(const struct daemon *daemon)
{
	unsigned n = 0;

	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct slot, slot, &tenant->slots, link)
			list_each (struct conn, conn, &slot->clients, wait)
				n++;
	return n;
}

static void write_servers(const struct metrics *metrics, FILE *out)
{
	static const char *const states[] = {
		[SERVER_INITIALIZING] = "initializing",
		[SERVER_ACTIVE] = "active",
		[SERVER_FAULT] = "fault",
		[SERVER_STOPPING] = "stopping",
	};
	unsigned n[ARRAY_SIZE(states)] = {0};

	list_each (struct server, server, &metrics->daemon->servers, link_in_daemon)
		n[server->state]++;
	exposition_family(out, "mps_servers", "gauge", "Servers, by their state");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct labels labels = {0};

		if (!states[i])
			continue;
		labels_add(&labels, "state", states[i]);
		exposition_number(out, "mps_servers", &labels, n[i]);
	}
	write_gauge(out, "mps_waiting_clients", "Clients that wait for their server",
		count_waiting(metrics->daemon));
}

static void write_stores(const struct metrics *metrics, FILE *out)
{
	static const struct {
		const char *name, *help;
	} gauges[] = {
		{"mps_server_store_bytes",
			"Host memory of the server that holds evicted memory of clients"},
		{"mps_server_store_limit_bytes", "How much there may be"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
		exposition_family(out, gauges[i].name, "gauge", gauges[i].help);
		list_each (struct server, server, &metrics->daemon->servers, link_in_daemon) {
			struct labels labels = {0};
			char name[SERVER_NAME_MAX];

			if (!metrics->sees_all && !viewer_sees_server(metrics->viewer, server))
				continue;
			slot_name(server->slot, name);
			labels_add_number(&labels, "server", (uint64_t)server->pid);
			labels_add(&labels, "server_name", name);
			labels_add_number(&labels, "uid", server->tenant->uid);
			exposition_number(out, gauges[i].name, &labels,
				i == 0 ? server->store_used : server->store_limit);
		}
	}
}

void metrics_write(const struct metrics *metrics, FILE *out)
{
	write_daemon(metrics, out);
	if (metrics->sees_all) {
		write_servers(metrics, out);
		write_events(metrics, out);
	}
	write_gauge(out, "mps_clients", "Clients of all servers", metrics->n_present);
	write_gauge(out, "mps_clients_without_series",
		"Of these, clients that are in the sums only, as there are too many",
		metrics->n_left_out);
	write_stores(metrics, out);
	write_gpus(metrics, out);
	write_counters(out, "client", metrics->clients, metrics->n_clients);
	write_clients_on_gpus(metrics, out);
	write_counters(out, "user", metrics->users, metrics->n_users);
	write_events_of_users(metrics, out);
	if (metrics->sees_all)
		write_counters(out, "group", metrics->groups, metrics->n_groups);
}
