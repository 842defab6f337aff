/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Named servers and namespaces. Loop thread.
 *
 * Invariant: the group of a namespace exists as long as the namespace, and no other command
 * removes it.
 */

#include "namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients.h"
#include "cuda.h"
#include "group_shares.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/partitions.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/endpoint.h"
#include "daemon/conn/pending.h"

/* ---- namespaces */

struct namespace *namespace_find(const struct slot *slot, const char *name)
{
	list_each (struct namespace, namespace, &slot->namespaces, link)
		if (strcmp(namespace->name, name) == 0)
			return namespace;
	return NULL;
}

/* The group of a new namespace. 0 or -errno with an error message. */
static int add_group(const struct slot *slot, const char *server, const char *name,
	struct group **ret_group, struct error_message *error)
{
	struct daemon *daemon = slot->tenant->daemon;
	char full[GROUP_NAME_MAX];
	int r;

	snprintf(full, sizeof(full), "%s/%s", server, name);
	if (groups_find(&daemon->groups, full))
		return error_message_set(error, -EEXIST,
			"There is a group %s, whose name the namespace would have", full);
	r = groups_add(&daemon->groups, full, ret_group);
	if (r < 0)
		return error_message_set(error, r,
			r == -ENOSPC ? "There are %u groups and namespaces, which is the maximum"
				     : "The daemon is out of memory (%u groups)",
			daemon->groups.n);
	/* The server of all users has clients of all users. */
	(*ret_group)->has_uid = !daemon->config.is_multiuser;
	(*ret_group)->uid = slot->tenant->uid;
	return 0;
}

int namespace_create(struct slot *slot, const char *name, struct namespace **ret_namespace,
	struct error_message *error)
{
	struct daemon *daemon = slot->tenant->daemon;
	char server[SERVER_NAME_MAX];
	struct namespace *namespace;
	struct group *group = NULL;
	int r;

	slot_name(slot, server);
	r = add_group(slot, server, name, &group, error);
	if (r < 0 || !group)
		return r;
	namespace = calloc(1, sizeof(*namespace));
	r = namespace ? endpoint_open(daemon, server, name, group->id, &namespace->endpoint, error)
		      : error_message_set(error, -ENOMEM, "The daemon is out of memory");
	if (r < 0 || !namespace) {
		group_shares_remove(&daemon->groups, group);
		free(namespace);
		return r;
	}
	snprintf(namespace->name, sizeof(namespace->name), "%s", name);
	namespace->slot = slot;
	namespace->group = group;
	namespace->cgroup_depth = UINT32_MAX;
	list_init(&namespace->enders);
	group->namespace = namespace;
	/* Before the first one: lists begin with the newest. */
	list_add_tail(slot->namespaces.next, &namespace->link);
	*ret_namespace = namespace;
	return 0;
}

void named_servers_answer(struct list *enders)
{
	list_each_safe (struct conn, conn, enders, wait) {
		list_remove(&conn->wait);
		pending_end(conn);
	}
}

static void namespace_free(struct namespace *namespace, bool is_forgotten)
{
	struct daemon *daemon = namespace->slot->tenant->daemon;

	named_servers_answer(&namespace->enders);
	endpoint_close(namespace->endpoint, is_forgotten);
	list_remove(&namespace->link);
	partitions_forget_group(&daemon->partitions, namespace->group->id);
	group_shares_remove(&daemon->groups, namespace->group);
	free(namespace);
}

void namespace_delete(struct namespace *namespace, struct conn *ender)
{
	namespace->is_deleted = true;
	list_add_tail(&namespace->enders, &ender->wait);
	daemon_want(namespace->slot->tenant->daemon, WANT_PROGRESS);
}

/* A client whose work was ended by a command stays until its process closes the connection. */
static bool has_work(const struct namespace *namespace)
{
	const struct daemon *daemon = namespace->slot->tenant->daemon;

	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (client->group == namespace->group->id &&
				client->termination != TERMINATION_DONE)
				return true;
	return false;
}

static void move_enders(struct list *from, struct list *to)
{
	list_each_safe (struct conn, conn, from, wait) {
		list_remove(&conn->wait);
		list_add_tail(to, &conn->wait);
	}
}

static void sweep_namespaces(struct slot *slot, struct list *enders)
{
	list_each_safe (struct namespace, namespace, &slot->namespaces, link)
		if (namespace->is_deleted && !has_work(namespace)) {
			daemon_want(slot->tenant->daemon, WANT_RECORD);
			move_enders(&namespace->enders, enders);
			namespace_free(namespace, true);
		}
}

static void free_parts(struct slot *slot, bool are_forgotten)
{
	list_each_safe (struct namespace, namespace, &slot->namespaces, link)
		namespace_free(namespace, are_forgotten);
	partitions_forget_slot(&slot->tenant->daemon->partitions, slot);
}

/* ---- named servers */

int named_server_create(struct tenant *tenant, const char *name, char *devices,
	struct slot **ret_slot, struct error_message *error)
{
	struct slot *slot = slot_new_named(tenant, name, devices);
	struct namespace *namespace;
	int r;

	if (!slot)
		return error_message_set(error, -ENOMEM, "The daemon is out of memory");
	r = namespace_create(slot, NAMESPACE_DEFAULT, &namespace, error);
	if (r < 0)
		slot_free_named(slot);
	else
		*ret_slot = slot;
	return r;
}

struct slot *named_server_restore(struct tenant *tenant, const char *name, char *devices)
{
	struct slot *slot = server_name_ok(name) ? slot_find_named(tenant->daemon, name) : NULL;

	if (!slot && server_name_ok(name))
		slot = slot_new_named(tenant, name, TAKE_PTR(devices));
	if (!slot || slot->tenant != tenant) {
		free(devices);
		return NULL;
	}
	slot->is_new = false;
	if (devices) {
		free(slot->devices);
		slot->devices = devices;
	}
	return slot;
}

void named_server_delete(struct slot *slot, bool force, struct conn *ender)
{
	struct daemon *daemon = slot->tenant->daemon;
	struct error_message error;

	error_message_set(&error, 0, "The server %s is deleted", slot->name);
	slot->is_deleted = true;
	if (ender)
		list_add_tail(&slot->enders, &ender->wait);
	slot_refuse_all(slot, CUDA_ERROR_MPS_CONNECTION_FAILED, &error);
	if (slot->server)
		server_shutdown(slot->server, force);
	daemon_want(daemon, WANT_PROGRESS);
}

/* Whether nothing of the slot is needed any more. */
static bool is_over(const struct slot *slot)
{
	bool has_failed = slot->is_new && !slot_is_waiting(slot);

	return *slot->name && slot->n_processes == 0 && (slot->is_deleted || has_failed);
}

static void sweep_slot(struct slot *slot, struct list *enders)
{
	struct daemon *daemon = slot->tenant->daemon;

	if (slot->server && slot->server->was_active)
		slot->is_new = false;
	if (!is_over(slot))
		return;
	log_control(&daemon->logs, "Server '%s' %s", slot->name,
		slot->is_deleted ? "is deleted" : "is deleted, as it could not start");
	move_enders(&slot->enders, enders);
	free_parts(slot, true);
	slot_free_named(slot);
	daemon_want(daemon, WANT_RECORD);
}

void named_servers_sweep(struct daemon *daemon, struct list *enders)
{
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each_safe (struct slot, slot, &tenant->slots, link) {
			sweep_namespaces(slot, enders);
			sweep_slot(slot, enders);
		}
}

void named_servers_close(struct daemon *daemon)
{
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each_safe (struct slot, slot, &tenant->slots, link) {
			free_parts(slot, false);
			if (*slot->name)
				slot_free_named(slot);
		}
}
