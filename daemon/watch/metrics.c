/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects the metrics. Loop thread.
 *
 * Invariant: each client is in the sums once, with or without series of its own; no two rows
 * have the same labels.
 */

#include "metrics.h"

#include <string.h>

#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"

static bool sees_server(const struct metrics *metrics, const struct server *server)
{
	return metrics->sees_all || viewer_sees_server(metrics->viewer, server);
}

static bool sees_client(
	const struct metrics *metrics, const struct server *server, const struct client *client)
{
	return metrics->sees_all || viewer_sees_client(metrics->viewer, server, client);
}

/* ---- rows of clients */

static void add_client_row(
	struct metrics *metrics, const struct server *server, const struct client *client)
{
	struct metrics_row *row = &metrics->clients[metrics->n_clients++];
	const struct group *group = groups_get(&metrics->daemon->groups, client->group);
	char name[SERVER_NAME_MAX];

	slot_name(server->slot, name);
	metrics->n_contexts += client->n_contexts;
	row->server = server;
	row->client = client;
	memcpy(row->counters, client->counts.counters, sizeof(row->counters));
	labels_add_number(&row->labels, "pid", (uint64_t)client->pid);
	labels_add_number(&row->labels, "client", client->id);
	labels_add_number(&row->labels, "uid", client->uid);
	labels_add(&row->labels, "group", group ? group->name : "");
	labels_add_number(&row->labels, "server", (uint64_t)server->pid);
	labels_add(&row->labels, "server_name", name);
}

static bool has_room(const struct metrics *metrics, const struct client *client)
{
	return metrics->n_clients < METRICS_CLIENTS_MAX &&
	       metrics->n_contexts + client->n_contexts <= METRICS_CONTEXTS_MAX;
}

/* The first `n' clients of the server, or all others. */
static void collect_clients_of(
	struct metrics *metrics, const struct server *server, unsigned n, bool is_first)
{
	list_each (const struct client, client, &server->clients, link) {
		bool is_among_first = n > 0;

		n -= is_among_first;
		if (is_among_first != is_first || !sees_client(metrics, server, client))
			continue;
		metrics->n_present++;
		if (has_room(metrics, client))
			add_client_row(metrics, server, client);
		else
			metrics->n_left_out++;
	}
}

/* One user's many clients must not take the series of another user's: each server has a share. */
static void collect_clients(struct metrics *metrics)
{
	const struct daemon *daemon = metrics->daemon;
	unsigned share = METRICS_CLIENTS_MAX / MAX(daemon->n_servers, 1u);

	for (int round = 0; round < 2; round++)
		list_each (struct server, server, &daemon->servers, link_in_daemon)
			collect_clients_of(metrics, server, share, round == 0);
}

/* ---- rows of users and groups */

static void collect_users(struct metrics *metrics)
{
	const struct usages *usages = &metrics->daemon->usages;

	for (unsigned i = 0; i < usages->n; i++) {
		const struct usage *usage = usages->items[i];
		struct metrics_row *row = &metrics->users[metrics->n_users];

		if (!metrics->sees_all && !viewer_sees_user(metrics->viewer, usage->uid))
			continue;
		metrics->n_users++;
		row->usage = usage;
		row->id = usage->uid;
		memcpy(row->counters, usage->ended.counters, sizeof(row->counters));
		labels_add_number(&row->labels, "uid", usage->uid);
	}
}

static void collect_groups(struct metrics *metrics)
{
	if (!metrics->sees_all)
		return;
	list_each (const struct group, group, &metrics->daemon->groups.list, link) {
		struct metrics_row *row = &metrics->groups[metrics->n_groups++];

		row->id = group->id;
		memcpy(row->counters, group->ended.counters, sizeof(row->counters));
		labels_add(&row->labels, "group", group->name);
	}
}

/*
 * Adds the client to the row that has `id', if there is one, and returns the row; `guess' is tried
 * first.
 */
static struct metrics_row *add_to_row(struct metrics_row *rows, unsigned n_rows,
	struct metrics_row *guess, uint32_t id, const struct client *client)
{
	struct metrics_row *row = guess;

	for (unsigned i = 0; !row || row->id != id; i++) {
		if (i == n_rows)
			return NULL;
		row = &rows[i];
	}
	for (unsigned i = 0; i < COUNTERS; i++)
		row->counters[i] += client->counts.counters[i];
	return row;
}

static void add_present_of(struct metrics *metrics, const struct server *server)
{
	struct metrics_row *user = NULL, *group = NULL;

	list_each (const struct client, client, &server->clients, link) {
		user = add_to_row(metrics->users, metrics->n_users, user, client->uid, client);
		if (client->group != 0)
			group = add_to_row(
				metrics->groups, metrics->n_groups, group, client->group, client);
	}
}

/* ---- GPUs */

static struct metrics_gpu *find_gpu(struct metrics *metrics, const char *uuid)
{
	for (unsigned i = 0; i < metrics->n_gpus; i++)
		if (strcmp(metrics->gpus[i].uuid, uuid) == 0)
			return &metrics->gpus[i];
	return NULL;
}

static void add_gpus(struct metrics *metrics, const struct devices *devices)
{
	for (unsigned i = 0; i < devices->n && metrics->n_gpus < DEVICES_MAX; i++) {
		struct metrics_gpu *gpu = &metrics->gpus[metrics->n_gpus];

		device_uuid_text(&devices->items[i], gpu->uuid);
		gpu->device = &devices->items[i];
		metrics->n_gpus += !find_gpu(metrics, gpu->uuid);
	}
}

/* A server is a process of a user, so its numbers can be anything: a GPU has no more memory. */
static void add_client_to_gpus(
	struct metrics *metrics, const struct server *server, const struct client *client)
{
	for (unsigned i = 0; i < client->n_contexts; i++) {
		uint32_t ordinal = client->contexts[i].ordinal;
		char uuid[DEVICE_UUID_TEXT];
		struct metrics_gpu *gpu;

		/* clients_add_context() has checked the ordinal. */
		device_uuid_text(&server->devices.items[ordinal], uuid);
		gpu = find_gpu(metrics, uuid);
		if (!gpu)
			continue;
		gpu->n_clients++;
		gpu->memory += MIN(client->counts.memory[ordinal], gpu->device->total_memory);
		gpu->slowdown = MAX(gpu->slowdown, client->counts.slowdown[ordinal]);
		/* One less: no share counts as the largest. */
		gpu->share_sms = MIN(gpu->share_sms - 1, client->counts.share_sms[ordinal] - 1) + 1;
	}
}

/* The GPUs that the daemon knows, then those that only servers of users have reported. */
static void collect_gpus(struct metrics *metrics)
{
	const struct daemon *daemon = metrics->daemon;

	add_gpus(metrics, &daemon->devices);
	list_each (const struct server, server, &daemon->servers, link_in_daemon) {
		if (!sees_server(metrics, server))
			continue;
		add_gpus(metrics, &server->devices);
		list_each (const struct client, client, &server->clients, link)
			if (sees_client(metrics, server, client))
				add_client_to_gpus(metrics, server, client);
	}
}

/* ---- all */

struct metrics *metrics_collect(const struct daemon *daemon, const struct conn *viewer)
{
	struct metrics *metrics = calloc(1, sizeof(*metrics));

	if (!metrics)
		return NULL;
	metrics->daemon = daemon;
	metrics->viewer = viewer;
	metrics->sees_all = !viewer || viewer_sees_all(viewer);
	collect_clients(metrics);
	collect_users(metrics);
	collect_groups(metrics);
	list_each (struct server, server, &daemon->servers, link_in_daemon)
		add_present_of(metrics, server);
	collect_gpus(metrics);
	return metrics;
}

static char *metrics_print(const struct metrics *metrics, size_t *ret_size)
{
	_cleanup_free_ char *page = NULL;
	FILE *out = open_memstream(&page, ret_size);
	bool has_failed;

	if (!out)
		return NULL;
	metrics_write(metrics, out);
	has_failed = ferror(out);
	if (fclose(out) != 0 || has_failed)
		return NULL;
	return TAKE_PTR(page);
}

char *metrics_page(const struct daemon *daemon, const struct conn *viewer, size_t *ret_size)
{
	struct metrics *metrics = metrics_collect(daemon, viewer);
	char *page;

	if (!metrics)
		return NULL;
	page = metrics_print(metrics, ret_size);
	free(metrics);
	return page;
}
