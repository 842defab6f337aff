/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The group of a client. Loop thread.
 *
 * Invariant: a group with a UID has only clients of that UID.
 */

#include "membership.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "server.h"
#include "daemon/text/process.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

/* Room for a path and the lines of cgroup version 1 before it. */
#define CGROUP_TEXT_MAX 16384

static int read_cgroup_file(pid_t pid, char text[CGROUP_TEXT_MAX])
{
	char path[64];
	_cleanup_close_ int fd = -EBADF;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, text, CGROUP_TEXT_MAX - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return 0;
}

/* The cgroup of the process that connected, even if another process has its PID by now. */
static int read_cgroup(struct conn *conn, char text[CGROUP_TEXT_MAX])
{
	int r;

	/* The setting is newer than the connection. */
	if (conn->pidfd == -EBADF)
		conn->pidfd = process_open_peer(conn->fd);
	if (conn->pidfd < 0)
		return conn->pidfd;
	r = read_cgroup_file(conn->cred.pid, text);
	/* The text is of this process only if it has not ended. */
	return r == 0 && !process_is_alive(conn->pidfd) ? -ESRCH : r;
}

static bool group_is_for(const struct group *group, uid_t uid)
{
	return !group->has_uid || group->uid == uid;
}

bool membership_is_possible(const struct server *server, const struct group *group)
{
	uid_t uid = server->tenant->uid;

	return group_is_for(group, uid) || daemon_trusts_server(server->daemon, uid);
}

/* Finds the group of the client's cgroup, or NULL. False: the client has been refused. */
static bool find_group_by_cgroup(struct conn *conn, struct group **ret_group)
{
	char text[CGROUP_TEXT_MAX];
	int r = read_cgroup(conn, text);
	const char *path = r == 0 ? group_name_of_cgroup(text) : NULL;

	*ret_group = NULL;
	if (!path)
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"Cannot determine the cgroup of process %d (%s), and the MPS daemon groups "
			"clients by cgroup (MPS_GROUP_BY_CGROUP)",
			conn->cred.pid, r < 0 ? strerror(-r) : "it has no cgroup of version 2");
	*ret_group = groups_find_above(&conn->daemon->groups, path);
	if (*ret_group && !group_is_for(*ret_group, conn->cred.uid))
		return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"The group %.100s of this cgroup is for UID %u, but this client runs as "
			"UID %u",
			(*ret_group)->name, (*ret_group)->uid, conn->cred.uid);
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
	return true;
}

/* The group that the client cannot choose: of its directory, or of its cgroup. NULL: none. */
static bool find_given_group(struct conn *conn, struct group **ret_group)
{
	*ret_group = NULL;
	if (conn->entry)
		return find_group_by_entry(conn, ret_group);
	return !conn->daemon->config.groups_by_cgroup || find_group_by_cgroup(conn, ret_group);
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
