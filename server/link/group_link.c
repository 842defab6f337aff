/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups and leases, between the daemon and this server.
 *
 * Invariant: at most one FRAME_LEASE_WANT of a group waits for its reply.
 */

#include "group_link.h"

#include <string.h>

#include "daemon_link.h"
#include "server/session/group.h"

static void send_lease(enum frame_type type, uint32_t group, const uint64_t bytes[DEVICES_MAX])
{
	struct frame_lease frame = {.head = frame_head(type, 0), .group = group};

	memcpy(frame.bytes, bytes, sizeof(frame.bytes));
	daemon_link_send(&frame);
}

bool group_link_take(const struct frame_group *frame)
{
	static const uint64_t nothing[DEVICES_MAX];
	uint32_t forgotten;
	bool is_set = group_set(frame, &forgotten);

	if (forgotten)
		send_lease(FRAME_LEASE_RETURN, forgotten, nothing);
	return is_set;
}

void group_link_take_lease(const struct frame_lease *frame)
{
	struct group *group = group_find(frame->group);

	if (!group)
		return;
	lease_take(group, frame);
	group_unref(group);
	group_link_look();
}

void group_link_give_back(const struct frame_lease *frame)
{
	struct group *group = group_find(frame->group);
	uint64_t lease[DEVICES_MAX] = {0};

	if (group)
		lease_give_back(group, lease);
	group_unref(group);
	send_lease(FRAME_LEASE_RETURN, frame->group, lease);
}

void group_link_look(void)
{
	struct group *group = NULL;

	while (daemon_link_has_daemon() && (group = group_next(group))) {
		struct frame_lease frame = {
			.head = frame_head(FRAME_LEASE_WANT, 0), .group = group->id};

		if (group_is_known(group) && lease_next_want(group, &frame))
			daemon_link_send(&frame);
	}
}

static void report(void)
{
	struct group *group = NULL;

	while ((group = group_next(group))) {
		struct frame_group_here frame = {.head = frame_head(FRAME_GROUP_HERE, 0)};

		lease_get(group, frame.lease);
		memcpy(frame.name, group->name, sizeof(frame.name));
		lease_lose_reply(group);
		daemon_link_send(&frame);
	}
}

void group_link_report_moved(void)
{
	/* The daemon that ordered the move has the leases of the other server. */
	if (groups_have_met_daemon())
		report();
}

void group_link_introduce(void)
{
	groups_meet_daemon();
	report();
}
