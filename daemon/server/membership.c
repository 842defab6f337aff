/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The group of a client. Loop thread.
 *
 * Invariant: a group with a UID has only clients of that UID.
 */

#include "membership.h"

#include <string.h>

#include "cgroup.h"
#include "cuda.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

static bool group_is_for(const struct group *group, uid_t uid)
{
	return !group->has_uid || group->uid == uid;
}

bool membership_is_possible(const struct server *server, const struct group *group)
{
	uid_t uid = server->tenant->uid;

	return group_is_for(group, uid) || daemon_trusts_server(server->daemon, uid);
}

static bool refuse_without_cgroup(struct conn *conn, const char *why, const char *setting)
{
	return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
		"Cannot determine the cgroup of process %d (%s), and the MPS daemon groups "
		"clients by cgroup (%s)",
		conn->cred.pid, why, setting);
}

/* Finds the group of the client's cgroup, or NULL. False: the client has been refused. */
static bool find_group_by_cgroup(struct conn *conn, struct group **ret_group)
{
	char text[CGROUP_TEXT_MAX];
	const char *why, *path = cgroup_of_client(conn, text, &why);

	*ret_group = NULL;
	if (!path)
		return refuse_without_cgroup(conn, why, "MPS_GROUP_BY_CGROUP");
	*ret_group = groups_find_above(&conn->daemon->groups, path);
	if (*ret_group && !group_is_for(*ret_group, conn->cred.uid))
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"The group %.100s of this cgroup is for UID %u, but this client runs as "
			"UID %u",
			(*ret_group)->name, (*ret_group)->uid, conn->cred.uid);
	return true;
}

/* ---- namespaces of cgroups */

/* Whether the client may come to that namespace by its cgroup. `slot': of that server only. */
static bool is_route(const struct group *group, const struct conn *conn, const struct slot *slot)
{
	const struct namespace *namespace = group->namespace;

	return namespace && *namespace->cgroup && !namespace->is_deleted &&
	       !namespace->slot->is_deleted && (!slot || namespace->slot == slot) &&
	       group_is_for(group, conn->cred.uid);
}

static bool has_routes(const struct conn *conn, const struct slot *slot)
{
	list_each (const struct group, group, &conn->daemon->groups.list, link)
		if (is_route(group, conn, slot))
			return true;
	return false;
}

static bool is_within(const struct namespace *namespace, const char *path)
{
	return group_name_is_above(namespace->cgroup, path) &&
	       cgroup_depth(namespace->cgroup, path) <= namespace->cgroup_depth;
}

/*
 * The namespace whose cgroup is the nearest one at or above the client's; else `ret_group' stays.
 * False: the client has been refused.
 */
static bool find_group_by_route(
	struct conn *conn, const struct slot *slot, struct group **ret_group)
{
	const struct namespace *found = NULL;
	char text[CGROUP_TEXT_MAX];
	const char *why, *path;

	if (!has_routes(conn, slot))
		return true;
	path = cgroup_of_client(conn, text, &why);
	if (!path)
		return refuse_without_cgroup(conn, why, "namespace set --cgroup");
	list_each (const struct group, group, &conn->daemon->groups.list, link)
		if (is_route(group, conn, slot) && is_within(group->namespace, path) &&
			(!found || strlen(group->namespace->cgroup) > strlen(found->cgroup)))
			found = group->namespace;
	if (found)
		*ret_group = found->group;
	return true;
}

static bool find_group_by_name(struct conn *conn, const char *name, struct group **ret_group)
{
	struct group *group = group_name_ok(name) ? groups_find(&conn->daemon->groups, name) : NULL;

	/* The kernel tells which processes are in a cgroup. */
	if (*name == '/')
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"MPS_GROUP=%.60s names a cgroup: start the program in that cgroup (the "
			"daemon groups clients by cgroup if MPS_GROUP_BY_CGROUP is set)",
			name);

	if (!group_name_ok(name))
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"MPS_GROUP is not a valid group name: it must have " GROUP_NAME_ACCEPTED);
	if (!group)
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"Group \"%.60s\" (MPS_GROUP) does not exist: the operator creates it with "
			"\"mps-control group create %.60s\"",
			name, name);
	if (group->namespace)
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"MPS_GROUP=%.60s names a namespace: set CUDA_MPS_PIPE_DIRECTORY to its "
			"directory instead",
			name);
	if (!group_is_for(group, conn->cred.uid))
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"The group \"%.60s\" (MPS_GROUP) is for UID %u: the operator creates one "
			"for UID %u with \"mps-control group create NAME -uid %u\"",
			name, group->uid, conn->cred.uid, conn->cred.uid);
	*ret_group = group;
	return true;
}

/* The group of the namespace by whose socket the client has come. */
static bool find_group_by_entry(struct conn *conn, struct group **ret_group)
{
	struct group *group = groups_get(&conn->daemon->groups, conn->entry);

	if (!group || !group->namespace || group->namespace->is_deleted ||
		group->namespace->slot->is_deleted)
		return conn_refuse(conn, CUDA_ERROR_MPS_CONNECTION_FAILED,
			"The namespace of this CUDA_MPS_PIPE_DIRECTORY has been deleted");
	if (!group_is_for(group, conn->cred.uid))
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"The namespace %.140s is of a server of UID %u, but this client runs as "
			"UID %u",
			group->name, group->uid, conn->cred.uid);
	*ret_group = group;
	/* The directory of the server itself is that of its namespace `default'. */
	return strcmp(group->namespace->name, NAMESPACE_DEFAULT) != 0 ||
	       find_group_by_route(conn, group->namespace->slot, ret_group);
}

/* The group that the client cannot choose: of its directory, or of its cgroup. NULL: none. */
static bool find_given_group(struct conn *conn, struct group **ret_group)
{
	*ret_group = NULL;
	if (conn->entry)
		return find_group_by_entry(conn, ret_group);
	if (conn->daemon->config.groups_by_cgroup && !find_group_by_cgroup(conn, ret_group))
		return false;
	return *ret_group || find_group_by_route(conn, NULL, ret_group);
}

static bool find_client_group(struct conn *conn, struct group **ret_group)
{
	const struct frame_variable *variable = &conn->in.hello.group;
	const char *name = variable->is_set && variable->value[0] ? variable->value : NULL;

	if (!find_given_group(conn, ret_group))
		return false;
	if (!*ret_group)
		return !name || find_group_by_name(conn, name, ret_group);
	if (name && strcmp(name, (*ret_group)->name) != 0)
		conn_log(conn,
			"Client %d of user %u stays in the group %s of its %s: its MPS_GROUP has "
			"no effect",
			conn->cred.pid, conn->cred.uid, (*ret_group)->name,
			conn->entry ? "directory" : "cgroup");
	return true;
}

bool membership_decide(struct conn *conn)
{
	struct group *group;

	if (!find_client_group(conn, &group))
		return false;
	conn->group = group ? group->id : 0;
	return true;
}
