/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shares of groups. Loop thread.
 *
 * Invariant: a server with a client in a group has received the group before, on the same
 * connection. The leases of a group's servers are together no more than its limit, except after
 * the limit was lowered below what clients use: a server may then use again what its clients free
 * of its lease, until another server asks for more.
 */

#include "group_shares.h"

#include <string.h>

#include "clients.h"
#include "limit_text.h"
#include "membership.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/dmem.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

static struct group_share *find_share(const struct server *server, uint32_t id)
{
	list_each (struct group_share, share, &server->group_shares, link)
		if (share->group == id)
			return share;
	return NULL;
}

static struct group_share *get_share(struct server *server, struct group *group)
{
	struct group_share *share = find_share(server, group->id);

	if (share)
		return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->server = server;
	share->group = group->id;
	list_add_tail(&server->group_shares, &share->link);
	list_add_tail(&group->shares, &share->link_in_group);
	return share;
}

static void share_free(struct group_share *share)
{
	list_remove(&share->link);
	list_remove(&share->link_in_group);
	free(share);
}

/* ---- what is free of the limit */

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t lease_of_gpu(const struct group_share *share, const uint8_t uuid[16])
{
	const struct devices *devices = &share->server->devices;
	uint64_t sum = 0;

	for (unsigned i = 0; i < devices->n; i++)
		if (memcmp(devices->items[i].uuid, uuid, 16) == 0)
			sum = add_saturated(sum, share->lease[i]);
	return sum;
}

/* The leases of all servers. */
static uint64_t leased(const struct group *group, const uint8_t uuid[16])
{
	uint64_t sum = 0;

	list_each (struct group_share, share, &group->shares, link_in_group)
		sum = add_saturated(sum, lease_of_gpu(share, uuid));
	return sum;
}

struct frame_limits group_shares_limits(const struct server *server, const struct group *group)
{
	const struct settings settings = groups_settings(group, &server->devices);
	struct frame_limits limits;

	limits_init(&limits);
	settings_lower(&settings, &server->devices, &limits);
	if (group->dmem)
		dmem_lower(group->dmem, &server->devices, &limits);
	if (server->daemon->is_memacct_off)
		limits_forget_soft(&limits);
	return limits;
}

/* What no server has of the limit of the server's i-th GPU. */
static uint64_t unused_part(const struct server *server, const struct group *group,
	const struct frame_limits *limits, unsigned i)
{
	uint64_t sum = leased(group, server->devices.items[i].uuid);

	return limits->memory[i] > sum ? limits->memory[i] - sum : 0;
}

/* ---- frames to servers */

static int send_group(const struct group *group, struct group_share *share)
{
	const struct server *server = share->server;
	struct frame_group frame = {
		.head = frame_head(FRAME_GROUP, 0),
		.id = group->id,
		.is_cgroup = group->dmem != NULL,
		.limits = group_shares_limits(server, group),
	};
	int r;

	memcpy(frame.name, group->name, strlen(group->name));
	r = conn_send(server->conn, &frame, -EBADF);
	if (r < 0)
		return r;
	share->is_sent = true;
	share->version = group->version;
	for (unsigned i = 0; i < server->devices.n; i++)
		if (frame.limits.memory[i] == MEMORY_ALL)
			share->lease[i] = MEMORY_ALL;
	return 0;
}

static int send_lease(const struct group *group, struct group_share *share)
{
	const struct server *server = share->server;
	const struct frame_limits limits = group_shares_limits(server, group);
	struct frame_lease frame = {
		.head = frame_head(FRAME_LEASE, 0),
		.group = share->group,
		.is_reply = share->is_reply,
	};
	int r;

	memcpy(frame.bytes, share->lease, sizeof(frame.bytes));
	for (unsigned i = 0; i < server->devices.n; i++)
		frame.spare[i] = unused_part(server, group, &limits, i);
	r = conn_send(server->conn, &frame, -EBADF);
	if (r == 0)
		share->is_due = share->is_reply = false;
	return r;
}

static int send_return(struct group_share *share)
{
	const struct frame_lease frame = {
		.head = frame_head(FRAME_LEASE_RETURN, 0), .group = share->group};
	int r = conn_send(share->server->conn, &frame, -EBADF);

	if (r == 0) {
		share->is_returning = true;
		share->must_return = false;
	}
	return r;
}

/* 0, or -errno: the rest is sent when the connection is writable. */
static int send_due(const struct group *group, struct group_share *share)
{
	int r = 0;

	if (!share->server->conn)
		return 0;
	if (!share->is_sent || share->version != group->version)
		r = send_group(group, share);
	if (r == 0 && share->is_due)
		r = send_lease(group, share);
	if (r == 0 && share->must_return && !share->is_returning)
		r = send_return(share);
	return r;
}

void group_shares_send_due(struct server *server)
{
	list_each (struct group_share, share, &server->group_shares, link) {
		/* This is called again when the connection is writable. */
		if (send_due(groups_get(&server->daemon->groups, share->group), share) < 0)
			return;
	}
}

/* ---- larger leases */

/* Servers of an earlier daemon may have leases of the group that this one does not know yet. */
static bool has_unknown_leases(const struct daemon *daemon, const struct group *group)
{
	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		if (!server->knows_clients && membership_is_possible(server, group))
			return true;
	return false;
}

static bool has_lease(const struct group_share *share)
{
	for (unsigned i = 0; i < share->server->devices.n; i++)
		if (share->lease[i] > 0)
			return true;
	return false;
}

/* Asks all servers but that of `except' (NULL: all) to return what they do not use. */
static void collect(const struct group *group, const struct group_share *except)
{
	list_each (struct group_share, share, &group->shares, link_in_group) {
		if (share == except || !has_lease(share))
			continue;
		share->must_return = true;
		send_due(group, share);
	}
}

/* Whether another server has not returned yet what it does not use. */
static bool is_collecting(const struct group *group, const struct group_share *except)
{
	list_each (const struct group_share, share, &group->shares, link_in_group)
		if (share != except && has_lease(share) &&
			(share->must_return || share->is_returning || !share->server->conn))
			return true;
	return false;
}

static unsigned count_wanting(const struct group *group)
{
	unsigned n = 0;

	list_each (struct group_share, share, &group->shares, link_in_group)
		n += share->wants;
	return n;
}

/* Whether the free part of the limit is enough, without the other servers. */
static bool is_enough(const struct group *group, const struct group_share *share)
{
	const struct frame_limits limits = group_shares_limits(share->server, group);

	for (unsigned i = 0; i < share->server->devices.n; i++)
		if (share->want[i] > unused_part(share->server, group, &limits, i))
			return false;
	return !share->wants_spare;
}

/*
 * A server alone in its wish gets also a half of what remains, so that it asks seldom. A server
 * gets nothing of a GPU that has too little left.
 */
static void enlarge(const struct group *group, struct group_share *share)
{
	const struct frame_limits limits = group_shares_limits(share->server, group);
	bool is_alone = count_wanting(group) == 1;

	for (unsigned i = 0; i < share->server->devices.n; i++) {
		uint64_t spare = unused_part(share->server, group, &limits, i),
			 want = share->want[i];

		if (want == 0 || want > spare)
			continue;
		share->lease[i] += is_alone ? want + (spare - want) / 2 : want;
	}
}

/* A lease may change only while its server is not asked to return a part of it. */
static void settle_want(const struct group *group, struct group_share *share)
{
	if (!share->wants || share->must_return || share->is_returning || !share->server->conn)
		return;
	if (!is_enough(group, share)) {
		if (!share->is_collected)
			collect(group, share);
		share->is_collected = true;
		if (is_collecting(group, share))
			return;
	}
	enlarge(group, share);
	share->wants = false;
	share->is_due = share->is_reply = true;
	send_due(group, share);
}

/* Replies to the servers whose wants can be decided now. */
static void settle(const struct daemon *daemon, const struct group *group)
{
	if (has_unknown_leases(daemon, group))
		return;
	list_each (struct group_share, share, &group->shares, link_in_group)
		settle_want(group, share);
}

static void settle_all(const struct daemon *daemon)
{
	list_each (struct group, group, &daemon->groups.list, link)
		settle(daemon, group);
	list_each (struct group, group, &daemon->groups.cgroups, link)
		settle(daemon, group);
}

/* ---- first lease */

/* A first server gets all: then it never asks while it stays alone. */
static void lease_first(struct server *server, const struct group *group, struct group_share *share)
{
	const struct frame_limits limits = group_shares_limits(server, group);

	for (unsigned i = 0; i < server->devices.n; i++) {
		const uint8_t *uuid = server->devices.items[i].uuid;

		if (limits.memory[i] == MEMORY_ALL ||
			(leased(group, uuid) == 0 && !has_unknown_leases(server->daemon, group)))
			share->lease[i] = limits.memory[i];
	}
}

int group_shares_send(struct server *server, struct group *group)
{
	struct group_share *share = find_share(server, group->id);
	int r;

	if (!share) {
		share = get_share(server, group);
		if (!share)
			return -ENOMEM;
		lease_first(server, group, share);
		share->is_due = true;
	}
	r = send_due(group, share);
	return share->is_sent && share->version == group->version ? 0 : r;
}

/* ---- successors */

int group_shares_copy(struct server *server, struct server *successor)
{
	int r = 0;

	list_each (struct group_share, share, &server->group_shares, link) {
		struct group *group = groups_get(&server->daemon->groups, share->group);
		struct group_share *copy = group ? get_share(successor, group) : NULL;

		if (group)
			r = copy ? send_due(group, copy) : -ENOMEM;
		if (r < 0)
			break;
	}
	return r;
}

static void add_lease(struct group_share *share, const struct group_share *before)
{
	const struct devices *devices = &share->server->devices;

	for (unsigned i = 0; i < devices->n; i++) {
		uint64_t lease = lease_of_gpu(before, devices->items[i].uuid);

		share->lease[i] = add_saturated(share->lease[i], lease);
	}
}

/* What the server was asked to return, and had not, its successor returns. */
void group_shares_move(struct server *server, struct server *successor)
{
	list_each_safe (struct group_share, share, &server->group_shares, link) {
		struct group_share *copy = find_share(successor, share->group);

		if (copy) {
			add_lease(copy, share);
			copy->must_return |= share->must_return || share->is_returning;
			copy->is_due = true;
		}
		share_free(share);
	}
}

/* ---- changes */

static bool has_too_large_leases(const struct server *server, const struct group *group)
{
	const struct frame_limits limits = group_shares_limits(server, group);

	for (unsigned i = 0; i < server->devices.n; i++)
		if (leased(group, server->devices.items[i].uuid) > limits.memory[i])
			return true;
	return false;
}

void group_shares_changed_all(struct daemon *daemon)
{
	list_each (struct group, group, &daemon->groups.list, link)
		group_shares_changed(daemon, group);
	list_each (struct group, group, &daemon->groups.cgroups, link)
		group_shares_changed(daemon, group);
}

void group_shares_changed(struct daemon *daemon, struct group *group)
{
	bool is_over = false;

	group->version++;
	list_each (struct group_share, share, &group->shares, link_in_group) {
		send_due(group, share);
		is_over |= has_too_large_leases(share->server, group);
	}
	if (is_over)
		collect(group, NULL);
	settle(daemon, group);
}

void group_shares_remove(struct groups *groups, struct group *group)
{
	list_each_safe (struct group_share, share, &group->shares, link_in_group)
		share_free(share);
	groups_remove(groups, group);
}

void group_shares_end(struct server *server)
{
	list_each_safe (struct group_share, share, &server->group_shares, link)
		share_free(share);
	settle_all(server->daemon);
}

/* ---- frames of servers */

void group_shares_on_link(struct server *server)
{
	list_each (struct group_share, share, &server->group_shares, link) {
		share->is_sent = share->is_reported = false;
		share->wants = share->is_returning = share->is_due = share->is_reply = false;
	}
}

void group_shares_on_report(struct server *server)
{
	list_each (struct group_share, share, &server->group_shares, link)
		if (!share->is_reported)
			memset(share->lease, 0, sizeof(share->lease));
	settle_all(server->daemon);
}

/* A server has no lease of a cgroup without a client in it. It has introduced its clients before.
 */
static bool has_client_in(const struct server *server, const struct group *group)
{
	list_each (const struct client, client, &server->clients, link)
		if (client_is_in(client, group->id))
			return true;
	return false;
}

static struct group *find_here(const struct server *server, const char *name)
{
	struct group *group = groups_find(&server->daemon->groups, name);

	if (group)
		return group;
	group = groups_find_cgroup(&server->daemon->groups, name);
	return group && has_client_in(server, group) ? group : NULL;
}

int group_shares_on_here(struct server *server, const struct frame_group_here *frame)
{
	struct group *group;
	struct group_share *share;

	if (!frame_text_ok(frame->name, sizeof(frame->name)))
		return -EBADMSG;
	group = find_here(server, frame->name);
	if (!group || !membership_is_possible(server, group))
		return 0;
	share = get_share(server, group);
	if (!share)
		return -ENOMEM;
	share->is_reported = true;
	memcpy(share->lease, frame->lease, sizeof(share->lease));
	send_due(group, share);
	return 0;
}

int group_shares_on_want(struct server *server, const struct frame_lease *frame)
{
	const struct group *group = groups_get(&server->daemon->groups, frame->group);
	struct group_share *share = group ? find_share(server, group->id) : NULL;

	if (!share)
		return 0;
	share->wants = true;
	share->wants_spare = share->is_collected = false;
	memcpy(share->want, frame->bytes, sizeof(share->want));
	for (unsigned i = 0; i < server->devices.n; i++)
		share->wants_spare |= frame->spare[i] != 0;
	settle(server->daemon, group);
	return 0;
}

int group_shares_on_return(struct server *server, const struct frame_lease *frame)
{
	const struct group *group = groups_get(&server->daemon->groups, frame->group);
	struct group_share *share = group ? find_share(server, group->id) : NULL;

	if (!share)
		return 0;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		share->lease[i] = MIN(share->lease[i], frame->bytes[i]);
	/* The daemon has not asked: the server has forgotten the group. */
	if (!share->is_returning)
		share_free(share);
	else
		share->is_returning = false;
	settle(server->daemon, group);
	return 0;
}
