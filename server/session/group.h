/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUP_H
#define GROUP_H

/*
 * Groups of clients, whose limits the daemon sends (FRAME_GROUP). The memory of a group's
 * members is counted together, for each GPU.
 *
 * The loop, except for group_unref(). A group stays in the table after its last member has
 * left, because the daemon sends its limits again only when they change. If the table is
 * full, a new group replaces one without members.
 */

#include "frame.h"
#include "lease.h"
#include "server/util/quota.h"

struct group {
	uint32_t id;      /* 0: not valid: a new daemon uses it for another group */
	uint32_t daemon;  /* number of the daemon that sent it last, counted here */
	atomic_uint refs; /* from sessions and from their memory */
	bool is_cgroup;
	char name[GROUP_NAME_MAX];
	struct frame_limits limits;
	struct quota memory[DEVICES_MAX]; /* of all members together; see lease.h */
	/* Of its members in this server: their soft limit, and what they have in the store. */
	_Atomic uint64_t soft[DEVICES_MAX], evicted[DEVICES_MAX];
	struct lease lease;
};

/* The groups of a client: its own one, and its cgroups, of which only memory counts. */
#define MEMBERSHIPS_MAX (1 + CGROUP_LEVELS_MAX)

/*
 * Another daemon sends its groups from now on. It counts IDs anew, but a name means the same
 * group. Those without members are forgotten, with their leases.
 */
void groups_meet_daemon(void);

/* Whether that has happened: the daemon is not the first one. */
bool groups_have_met_daemon(void);

/*
 * A new group, or new limits of one. The memory limit applies to its members at once, but
 * takes nothing away from them. `ret_forgotten' is the ID of the group that the new one
 * replaces, or 0. False: the frame is malformed or there are too many groups; the reason is in
 * the log.
 */
bool group_set(const struct frame_group *frame, uint32_t *ret_forgotten);

/* The next group after `group' (NULL: the first one), without a reference. NULL: the end. */
struct group *group_next(const struct group *group);

/* Whether the present daemon has sent the group. */
bool group_is_known(const struct group *group);

/* With a reference. NULL: the daemon has not sent the group. */
struct group *group_find(uint32_t id);

/* Any thread. */
struct group *group_ref(struct group *group);
void group_unref(struct group *group); /* NULL is fine */

#endif
