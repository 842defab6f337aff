/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The groups of cgroups. Loop thread.
 *
 * Invariant: the group of a cgroup has clients, or ends at the next look.
 */

#include "cgroup_groups.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cgroup.h"
#include "clients.h"
#include "cuda.h"
#include "frame.h"
#include "group_shares.h"
#include "server.h"
#include "daemon/text/kernel_file.h"
#include "daemon/state/daemon.h"
#include "daemon/state/dmem.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

#define LOOK_MS 1000
#define WHY_MAX 128

/* No name of the operator's groups has a colon. */
#define NAME_PREFIX "cgroup:"

/* A path that is no text for logs and tables gives way to the number of the folder. */
static void name_of(const char *path, const char *folder, char name[GROUP_NAME_MAX])
{
	const size_t room = GROUP_NAME_MAX - sizeof(NAME_PREFIX);
	struct stat st = {0};
	size_t n = 0;

	while (path[n] > ' ' && path[n] < 0x7f)
		n++;
	if (!path[n] && n <= room) {
		snprintf(name, GROUP_NAME_MAX, NAME_PREFIX "%s", *path ? path : "/");
		return;
	}
	(void)stat(folder, &st);
	snprintf(name, GROUP_NAME_MAX, NAME_PREFIX "%llu", (unsigned long long)st.st_ino);
}

static void note_members(const struct daemon *daemon, const uint32_t cgroups[CGROUP_LEVELS_MAX])
{
	for (unsigned i = 0; i < CGROUP_LEVELS_MAX && cgroups[i] != 0; i++) {
		struct group *group = groups_get(&daemon->groups, cgroups[i]);

		if (group)
			group->has_members = true;
	}
}

/* A client that is connected, or waits for its server, is a member. */
static void look_for_members(const struct daemon *daemon)
{
	list_each (struct group, group, &daemon->groups.cgroups, link)
		group->has_members = false;
	list_each (const struct tenant, tenant, &daemon->tenants, link)
		list_each (const struct conn, conn, &tenant->conns, link)
			note_members(daemon, conn->cgroups);
	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			note_members(daemon, client->cgroups);
}

static void on_look(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	look_for_members(daemon);
	list_each_safe (struct group, group, &daemon->groups.cgroups, link) {
		if (!group->has_members)
			group_shares_remove(&daemon->groups, group);
		else if (dmem_read_again(group->dmem))
			group_shares_changed(daemon, group);
	}
	if (daemon->groups.n_cgroups == 0)
		uv_timer_stop(timer);
}

static void start_looking(struct daemon *daemon)
{
	if (!uv_is_active((uv_handle_t *)&daemon->dmem_timer) &&
		!uv_is_closing((uv_handle_t *)&daemon->dmem_timer))
		uv_timer_start(&daemon->dmem_timer, on_look, LOOK_MS, LOOK_MS);
}

/* Takes `dmem'. 0 or -errno. */
static int get_group(
	struct daemon *daemon, const char *folder, struct dmem *dmem, struct group **ret_group)
{
	char name[GROUP_NAME_MAX];
	int r = 0;

	name_of(folder + strlen(daemon->config.cgroup_root), folder, name);
	*ret_group = groups_find_cgroup(&daemon->groups, name);
	if (*ret_group)
		dmem_free(dmem);
	else
		r = groups_add_cgroup(&daemon->groups, name, dmem, ret_group);
	if (r == 0 && dmem_read_again((*ret_group)->dmem))
		group_shares_changed(daemon, *ret_group);
	if (r == 0)
		start_looking(daemon);
	return r;
}

/* Adds the cgroup `folder' if it has a limit. 0 or -errno. */
static int join_one(struct daemon *daemon, const char *folder, bool *is_min_known,
	uint32_t cgroups[CGROUP_LEVELS_MAX], unsigned *n)
{
	struct dmem *dmem = dmem_read(folder, *is_min_known);
	struct group *group;
	int r;

	if (!dmem)
		return -ENOMEM;
	*is_min_known |= dmem_has_min(dmem);
	if (!dmem_is_limited(dmem) || *n == CGROUP_LEVELS_MAX) {
		r = dmem_is_limited(dmem) ? -E2BIG : 0;
		dmem_free(dmem);
		return r;
	}
	r = get_group(daemon, folder, dmem, &group);
	if (r == 0)
		cgroups[(*n)++] = group->id;
	return r;
}

/* From the cgroup of that path up to the root. 0 or -errno. */
static int join_path(struct daemon *daemon, const char *path, uint32_t cgroups[CGROUP_LEVELS_MAX])
{
	const char *root = daemon->config.cgroup_root;
	char folder[PATH_MAX + 32], *slash;
	bool is_min_known = false;
	unsigned n = 0;
	int r;

	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", root, path) >= sizeof(folder))
		return -ENAMETOOLONG;
	for (;;) {
		r = join_one(daemon, folder, &is_min_known, cgroups, &n);
		slash = strrchr(folder + strlen(root), '/');
		if (r < 0 || !slash)
			return r;
		*slash = '\0';
	}
}

/* The controller exists if its file in the root does. */
static bool has_controller(const struct daemon *daemon)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/dmem.capacity", daemon->config.cgroup_root);
	return access(path, F_OK) == 0;
}

static void why_not(int r, char text[WHY_MAX])
{
	if (r == -E2BIG)
		snprintf(text, WHY_MAX, "more than %d cgroups of its path have limits",
			CGROUP_LEVELS_MAX);
	else if (r == -ENOSPC)
		snprintf(text, WHY_MAX, "%d cgroups with limits have clients", CGROUPS_MAX);
	else
		snprintf(text, WHY_MAX, "%s", strerror(-r));
}

bool cgroup_groups_join(struct conn *conn)
{
	char text[CGROUP_TEXT_MAX], reason[WHY_MAX];
	const char *why, *path;
	int r;

	memset(conn->cgroups, 0, sizeof(conn->cgroups));
	if (!has_controller(conn->daemon))
		return true;
	path = cgroup_of_client(conn, text, &why);
	/* Without cgroups of version 2 there are no limits. */
	if (!path)
		return true;
	r = join_path(conn->daemon, path, conn->cgroups);
	if (r >= 0)
		return true;
	why_not(r, reason);
	return conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
		"The MPS daemon cannot count the memory of the cgroup %.100s (dmem.max, "
		"dmem.min): %s",
		path, reason);
}

void cgroup_groups_join_process(
	struct daemon *daemon, pid_t pid, uint32_t cgroups[CGROUP_LEVELS_MAX])
{
	char text[CGROUP_TEXT_MAX], file[64];
	const char *path = NULL;

	if (pid == 0 || !has_controller(daemon))
		return;
	snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
	if (kernel_file_read(file, text, sizeof(text)) == 0)
		path = group_name_of_cgroup(text);
	if (path)
		(void)join_path(daemon, path, cgroups);
}
