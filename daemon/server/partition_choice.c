/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which partitions of SMs clients have. Loop thread.
 *
 * Invariant: what a client gets beyond its partition is in no partition of its server, and no
 * client of another partition of the server has it.
 */

#include "partition_choice.h"

#include <stdio.h>
#include <string.h>

#include "clients.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/partitions.h"
#include "daemon/conn/conn.h"

/* ---- which clients have one */

/* An adopted server that has not reported its clients yet may have some. */
static bool may_have_unknown_clients(const struct server *server, const struct partition *partition)
{
	return partition->is_of_earlier_daemon && !server->is_child && !server->knows_clients;
}

static bool client_has(
	const struct server *server, const struct client *client, const struct partition *partition)
{
	for (unsigned i = 0; i < server->devices.n; i++)
		if (partition_is_of(partition, &server->devices.items[i]) &&
			(client->partition[i] & partition->chunks) == partition->chunks)
			return true;
	return false;
}

unsigned partition_count_others(
	const struct daemon *daemon, const struct partition *partition, uint32_t group)
{
	unsigned n = 0;

	list_each (const struct server, server, &daemon->servers, link_in_daemon) {
		if (!partition_serves(partition, server->slot))
			continue;
		n += may_have_unknown_clients(server, partition);
		list_each (const struct client, client, &server->clients, link)
			n += (group == 0 || client->group != group) &&
			     client_has(server, client, partition);
	}
	return n;
}

unsigned partition_count_clients(const struct daemon *daemon, const struct partition *partition)
{
	return partition_count_others(daemon, partition, 0);
}

uint64_t partition_lent(const struct server *server, const struct frame_device *device,
	const struct partition *except)
{
	const struct list *partitions = &server->daemon->partitions;
	uint64_t used = partitions_used(partitions, device, server->slot), lent = 0;

	for (unsigned i = 0; i < server->devices.n; i++) {
		if (memcmp(server->devices.items[i].uuid, device->uuid, sizeof(device->uuid)) != 0)
			continue;
		list_each (const struct client, client, &server->clients, link)
			if (!except || !client_has(server, client, except))
				lent |= client->partition[i] & ~used;
	}
	return lent;
}

/* ---- what a client gets */

/* The one that the client names for the GPU in "UUID/ID,..."; an ID may contain slashes. */
static const struct partition *find_named(
	const struct server *server, const char *names, const struct frame_device *device)
{
	char text[FRAME_TEXT_MAX], *rest = text, *name, *slash;
	const struct frame_device *meant;

	snprintf(text, sizeof(text), "%s", names);
	while ((name = strsep(&rest, ","))) {
		slash = strchr(name, '/');
		if (!slash)
			continue;
		*slash = '\0';
		if (devices_find(&server->devices, name, &meant) == 0 && meant == device)
			return partitions_find(
				&server->daemon->partitions, device, slash + 1, server->slot);
	}
	return NULL;
}

static const struct partition *find_partition(
	const struct server *server, const struct conn *conn, const struct frame_device *device)
{
	const struct list *partitions = &server->daemon->partitions;
	const struct partition *bound =
		conn->group ? partitions_find_bound(partitions, device, conn->group) : NULL;
	const struct partition *named =
		bound ? NULL : find_named(server, conn->in.hello.sm_partition.value, device);

	if (named && !list_empty(&named->bindings) && !named->is_shareable)
		return NULL;
	return bound ? bound : named;
}

/* The partition's chunks, and free ones as far as it may have more. */
static uint64_t chunks_for(const struct server *server, const struct frame_device *device,
	const struct partition *partition)
{
	const struct list *partitions = &server->daemon->partitions;
	unsigned n = chunks_count(partition->chunks & chunks_of(device));
	uint64_t used;

	if (partition->max_chunks <= n)
		return partition->chunks;
	used = partitions_used(partitions, device, server->slot) |
	       partition_lent(server, device, partition);
	return partition->chunks |
	       chunks_first(chunks_of(device) & ~used, partition->max_chunks - n);
}

void partition_choice_set(
	const struct server *server, const struct conn *conn, struct frame_limits *limits)
{
	const struct daemon *daemon = server->daemon;

	for (unsigned i = 0; i < server->devices.n; i++) {
		const struct frame_device *device = &server->devices.items[i];
		const struct partition *partition;

		if (!daemon->config.is_partitioned &&
			!partitions_used(&daemon->partitions, device, server->slot))
			continue;
		limits->partitioned |= UINT64_C(1) << i;
		partition = find_partition(server, conn, device);
		if (partition)
			limits->partition[i] = chunks_for(server, device, partition);
	}
	if (daemon->config.is_partitioned)
		limits->active_threads = ACTIVE_THREADS_ALL;
}
