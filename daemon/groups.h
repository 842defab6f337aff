/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUPS_H
#define GROUPS_H

/*
 * Groups: names with limits that several clients share. The operator makes
 * them; a server hears of one before its first client of that group, and of
 * each change after. Loop thread.
 */

#include <sys/types.h>

#include "bounds.h"
#include "group_name.h"
#include "list.h"
#include "settings.h"

struct daemon;
struct server;

struct group {
	struct list link;
	uint32_t id;      /* never 0, nor one of the daemon's before: its servers may know that */
	uint32_t version; /* of its settings */
	bool has_uid;     /* only clients of `uid' may be in it */
	uid_t uid;
	struct settings settings;
	char name[GROUP_NAME_MAX];
};

struct groups {
	struct list list;
	unsigned n;
	uint32_t last_id;
};

/* What one connection to a server has told it. */
struct sent_groups {
	unsigned n;
	struct sent_group {
		uint32_t id, version;
	} * items;
};

void groups_init(struct groups *groups);
void groups_fini(struct groups *groups);

/* NULL if there is none. */
struct group *groups_find(const struct groups *groups, const char *name);
struct group *groups_get(const struct groups *groups, uint32_t id);

/* The one whose name is the longest that is `path' or a folder above it. */
struct group *groups_find_above(const struct groups *groups, const char *path);

/* 0, -ENOSPC (there are GROUPS_MAX) or -ENOMEM. The name is a new one and well-formed. */
int groups_add(struct groups *groups, const char *name, struct group **ret_group);

/* Clients that are in it, and those that wait for their server. */
unsigned groups_count_clients(const struct daemon *daemon, const struct group *group);

/* Forgets a group without clients. */
void groups_remove(struct daemon *daemon, struct group *group);

/* Its settings have changed: servers that know it are told. */
void groups_changed(struct daemon *daemon, struct group *group);

/* Tells a server of the group unless it knows. 0, -EAGAIN (later) or -errno. */
int groups_send(struct server *server, const struct group *group);

/* There is room on the link again: tells what has changed. */
void groups_send_changes(struct server *server);

/* The link is new, or the server's end. */
void groups_forget_sent(struct server *server);

#endif
