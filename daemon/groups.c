/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups. Loop thread.
 *
 * Invariant: a server with a client in a group has received the group before,
 * on the same connection.
 */

#include <string.h>
#include <sys/random.h>

#include "clients.h"
#include "conn.h"
#include "daemon.h"
#include "groups.h"
#include "server.h"
#include "tenant.h"

void groups_init(struct groups *groups)
{
	*groups = (struct groups){0};
	list_init(&groups->list);
	/* A fallback without the system's random numbers. */
	if (getrandom(&groups->last_id, sizeof(groups->last_id), GRND_NONBLOCK) < 0)
		groups->last_id = (uint32_t)getpid() << 12;
}

static void group_free(struct groups *groups, struct group *group)
{
	list_remove(&group->link);
	groups->n--;
	free(group);
}

void groups_fini(struct groups *groups)
{
	list_for_each_safe (item, following, &groups->list)
		group_free(groups, container_of(item, struct group, link));
}

struct group *groups_find(const struct groups *groups, const char *name)
{
	list_for_each (item, &groups->list) {
		struct group *group = container_of(item, struct group, link);

		if (strcmp(group->name, name) == 0)
			return group;
	}
	return NULL;
}

struct group *groups_get(const struct groups *groups, uint32_t id)
{
	list_for_each (item, &groups->list) {
		struct group *group = container_of(item, struct group, link);

		if (group->id == id)
			return group;
	}
	return NULL;
}

struct group *groups_find_above(const struct groups *groups, const char *path)
{
	struct group *found = NULL;

	list_for_each (item, &groups->list) {
		struct group *group = container_of(item, struct group, link);

		if (group_name_is_above(group->name, path) &&
			(!found || strlen(group->name) > strlen(found->name)))
			found = group;
	}
	return found;
}

static uint32_t next_group_id(struct groups *groups)
{
	do
		groups->last_id++;
	while (groups->last_id == 0 || groups_get(groups, groups->last_id));
	return groups->last_id;
}

int groups_add(struct groups *groups, const char *name, struct group **ret_group)
{
	struct group *group;

	if (groups->n >= GROUPS_MAX)
		return -ENOSPC;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	group->id = next_group_id(groups);
	settings_init(&group->file);
	settings_init(&group->commands);
	snprintf(group->name, sizeof(group->name), "%s", name);
	list_add_tail(&groups->list, &group->link);
	groups->n++;
	*ret_group = group;
	return 0;
}

struct settings groups_settings(const struct group *group, const struct devices *devices)
{
	const struct settings *const layers[LAYERS] = {
		[LAYER_SECTION] = &group->file,
		[LAYER_COMMAND] = &group->commands,
	};

	return settings_fold(layers, devices);
}

static unsigned count_waiting_clients(const struct daemon *daemon, uint32_t id)
{
	unsigned n = 0;

	list_for_each (item, &daemon->tenants)
		list_for_each (conn, &container_of(item, struct tenant, link)->conns)
			n += container_of(conn, struct conn, link)->group == id;
	return n;
}

unsigned groups_count_clients(const struct daemon *daemon, const struct group *group)
{
	unsigned n = count_waiting_clients(daemon, group->id);

	list_for_each (each, &daemon->servers) {
		struct server *server = container_of(each, struct server, link_in_daemon);

		list_for_each (item, &server->clients)
			n += container_of(item, struct client, link)->group == group->id;
	}
	return n;
}

/* ---- groups that servers have received */

static struct sent_group *find_sent_group(const struct server *server, uint32_t id)
{
	for (unsigned i = 0; i < server->sent_groups.n; i++)
		if (server->sent_groups.items[i].id == id)
			return &server->sent_groups.items[i];
	return NULL;
}

void groups_forget_sent(struct server *server)
{
	free(server->sent_groups.items);
	server->sent_groups = (struct sent_groups){0};
}

static int send_group(struct server *server, const struct group *group)
{
	const struct settings settings = groups_settings(group, &server->devices);
	struct frame_group frame = {0};

	frame_init(&frame, FRAME_GROUP, 0);
	frame.id = group->id;
	limits_init(&frame.limits);
	settings_lower(&settings, &server->devices, &frame.limits);
	memcpy(frame.name, group->name, strlen(group->name));
	return conn_send(server->conn, &frame, -EBADF);
}

int groups_send(struct server *server, const struct group *group)
{
	struct sent_groups *sent = &server->sent_groups;
	struct sent_group *known = find_sent_group(server, group->id), *items;
	int r;

	if (known && known->version == group->version)
		return 0;
	if (!known) {
		items = reallocarray(sent->items, sent->n + 1, sizeof(*items));
		if (!items)
			return -ENOMEM;
		sent->items = items;
	}
	r = send_group(server, group);
	if (r < 0)
		return r;
	if (!known)
		known = &sent->items[sent->n++];
	*known = (struct sent_group){group->id, group->version};
	return 0;
}

void groups_send_changes(struct server *server)
{
	list_for_each (item, &server->daemon->groups.list) {
		const struct group *group = container_of(item, struct group, link);

		/* This is called again when the connection exists and is writable. */
		if (server->conn && find_sent_group(server, group->id) &&
			groups_send(server, group) < 0)
			return;
	}
}

void groups_changed(struct daemon *daemon, struct group *group)
{
	group->version++;
	list_for_each (item, &daemon->servers)
		groups_send_changes(container_of(item, struct server, link_in_daemon));
}

void groups_remove(struct daemon *daemon, struct group *group)
{
	list_for_each (item, &daemon->servers) {
		struct server *server = container_of(item, struct server, link_in_daemon);
		struct sent_group *known = find_sent_group(server, group->id);

		if (known)
			*known = server->sent_groups.items[--server->sent_groups.n];
	}
	group_free(&daemon->groups, group);
}
