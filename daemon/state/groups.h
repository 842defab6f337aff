/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUPS_H
#define GROUPS_H

/*
 * Groups: names with limits that several clients share. The operator creates
 * them; a server receives a group before its first client of that group, and
 * after each change. Loop thread.
 */

#include <sys/types.h>

#include "counts.h"
#include "daemon/text/group_name.h"
#include "daemon/text/list.h"
#include "daemon/config/settings.h"

struct dmem;
struct namespace;

struct group {
	struct list link;
	uint32_t id; /* not 0, and not an id of an earlier daemon, which its servers may know */
	uint32_t version; /* of its limits */
	bool has_uid;     /* only clients of `uid' may be in it */
	uid_t uid;
	bool is_of_file;                /* the configuration file has a section for it */
	bool is_uid_of_file;            /* `has_uid' and `uid' are that section's */
	struct settings file, commands; /* its layers: the section, and commands of the operator */
	struct list shares;             /* of its servers (group_shares.h) */
	struct counts ended;            /* the sum of its clients that have ended */
	struct namespace *namespace;    /* whose group it is; NULL: of none */
	struct dmem *dmem; /* owned: of a cgroup with limits. NULL: the operator's group */
	bool has_members;  /* of a cgroup, at the last look */
	char name[GROUP_NAME_MAX];
};

struct groups {
	struct list list;
	struct list cgroups; /* the groups of cgroups with limits, which are not in `list' */
	unsigned n, n_cgroups;
	uint32_t last_id;
};

void groups_init(struct groups *groups);
void groups_fini(struct groups *groups);

/* What counts for the group. */
struct settings groups_settings(const struct group *group, const struct devices *devices);

/* NULL if there is none. groups_get() finds both kinds. */
struct group *groups_find(const struct groups *groups, const char *name);
struct group *groups_find_cgroup(const struct groups *groups, const char *name);
struct group *groups_get(const struct groups *groups, uint32_t id);

/* The group with the longest name that is `path' or a directory above it. */
struct group *groups_find_above(const struct groups *groups, const char *path);

/* 0, -ENOSPC (GROUPS_MAX groups exist) or -ENOMEM. The name is new and valid. */
int groups_add(struct groups *groups, const char *name, struct group **ret_group);

/* The same for CGROUPS_MAX. Takes `dmem'. */
int groups_add_cgroup(
	struct groups *groups, const char *name, struct dmem *dmem, struct group **ret_group);

/* Removes a group that no server has: see group_shares_remove(). */
void groups_remove(struct groups *groups, struct group *group);

#endif
