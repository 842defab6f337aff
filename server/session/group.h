/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUP_H
#define GROUP_H

/*
 * Groups of clients, whose limits the daemon tells (FRAME_GROUP). The memory of a
 * group's members is counted together, for each GPU.
 *
 * The loop, but group_unref(). A group stays in the table after its last member has
 * left, because the daemon does not tell its limits again before they change. If the
 * table is full, a group without members makes way for a new one.
 */

#include "frame.h"
#include "server/util/quota.h"

struct group {
	uint32_t id;      /* 0: none any more, a new daemon uses it for another group */
	uint32_t daemon;  /* that told of it last, as they are counted here */
	atomic_uint refs; /* of sessions, and of their memory */
	char name[GROUP_NAME_MAX];
	struct frame_limits limits;
	struct quota memory[DEVICES_MAX]; /* of all members together */
};

/* Another daemon tells its groups from now on: it counts anew, but a name is the same group. */
void groups_meet_daemon(void);

/*
 * A new group, or new limits of one. The memory limit holds for its members at
 * once, but takes nothing away from them. False: the frame is malformed or there
 * are too many groups; the log has been told.
 */
bool group_set(const struct frame_group *frame);

/* With a reference. NULL: the daemon has told of no such group. */
struct group *group_find(uint32_t id);

/* Any thread. */
struct group *group_ref(struct group *group);
void group_unref(struct group *group); /* NULL is fine */

#endif
