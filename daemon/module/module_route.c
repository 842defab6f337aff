/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cgroup whose clients come to a namespace, of protocol 3. Loop thread.
 *
 * Invariant: no two namespaces of servers of one user have the same cgroup.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/reply/command_reply.h"

#define NO_CGROUP "none"
#define ALL_LEVELS "all"

/* The path without the folder where cgroups are mounted, which users may write before it. */
static const char *skip_root(const struct daemon *daemon, const char *text)
{
	const char *root = daemon->config.cgroup_root;
	size_t length = strlen(root);

	if (strcmp(text, root) == 0)
		return "/";
	return strncmp(text, root, length) == 0 && text[length] == '/' ? text + length : text;
}

static bool is_path(const char *text)
{
	size_t length = strlen(text);

	for (const char *at = text; *at; at++)
		if (*at <= ' ' || *at > '~')
			return false;
	return *text == '/' && length < GROUP_NAME_MAX;
}

/* A namespace of the slot's user that has the cgroup; NULL: there is none. */
static const struct namespace *find_with(
	const struct slot *slot, const struct namespace *except, const char *cgroup)
{
	list_each (const struct group, group, &slot->tenant->daemon->groups.list, link) {
		const struct namespace *other = group->namespace;

		if (other && other != except && other->slot->tenant == slot->tenant &&
			strcmp(other->cgroup, cgroup) == 0)
			return other;
	}
	return NULL;
}

static bool read_path(struct conn *conn, const struct slot *slot, const struct namespace *namespace,
	const char *text, struct route *route)
{
	const char *path = skip_root(conn->daemon, text);
	const struct namespace *other;

	if (strcmp(text, NO_CGROUP) == 0) {
		*route->cgroup = '\0';
		return true;
	}
	if (!is_path(path))
		return command_fail(conn,
			"\"%s\" is not the path of a cgroup: --cgroup takes up to 255 characters "
			"that begin with /, or " NO_CGROUP,
			text);
	other = find_with(slot, namespace, path);
	if (other)
		return command_fail(conn,
			"Clients of the cgroup %s come to the namespace %s: set another --cgroup "
			"there first, or none",
			path, other->group->name);
	snprintf(route->cgroup, sizeof(route->cgroup), "%s", path);
	return true;
}

static bool read_depth(struct conn *conn, const char *text, struct route *route)
{
	uint64_t depth;

	if (strcmp(text, ALL_LEVELS) == 0)
		route->depth = UINT32_MAX;
	else if (parse_number(text, UINT32_MAX, &depth) == 0)
		route->depth = (uint32_t)depth;
	else
		return command_fail(conn,
			"\"%s\" is not a number of levels: --cgroup-depth takes a number, "
			"or " ALL_LEVELS,
			text);
	return true;
}

bool module_has_route(const struct tokens *tokens)
{
	return arguments_get(tokens, "cgroup") || arguments_get(tokens, "cgroup-depth");
}

bool module_read_route(struct conn *conn, const struct tokens *tokens, const struct slot *slot,
	const struct namespace *namespace, struct route *ret_route)
{
	const char *path = arguments_get(tokens, "cgroup");
	const char *depth = arguments_get(tokens, "cgroup-depth");

	*ret_route = (struct route){.depth = namespace ? namespace->cgroup_depth : UINT32_MAX};
	if (namespace)
		memcpy(ret_route->cgroup, namespace->cgroup, sizeof(ret_route->cgroup));
	return (!path || read_path(conn, slot, namespace, path, ret_route)) &&
	       (!depth || read_depth(conn, depth, ret_route));
}

void module_add_route(struct table *table, const struct namespace *namespace)
{
	table_add(table, "%s", *namespace->cgroup ? namespace->cgroup : NO_CGROUP);
	if (namespace->cgroup_depth == UINT32_MAX)
		table_add(table, ALL_LEVELS);
	else
		table_add(table, "%u", namespace->cgroup_depth);
}
