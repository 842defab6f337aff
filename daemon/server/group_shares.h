/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUP_SHARES_H
#define GROUP_SHARES_H

/*
 * What servers know of groups, and have of their memory. The memory limit of a group holds for
 * all its clients together, so the daemon divides it: a server has a lease, and its clients of
 * the group may use so much together.
 *
 * The first server of a group gets a lease of the whole limit. A server that needs more asks.
 * If no part of the limit is free, the daemon then asks the other servers to return what their
 * clients do not use. A lease ends with the server's process.
 *
 * A server runs as its user, so it may say anything. It can keep memory from clients of groups
 * in which its user may have clients, as such a client can by allocating. Loop thread.
 */

#include "daemon/state/groups.h"

struct daemon;
struct server;

struct group_share {
	struct list link, link_in_group; /* in the lists of shares of its server and its group */
	struct server *server;
	uint32_t group;    /* its id */
	uint32_t version;  /* of the limits that the server has received */
	bool is_sent;      /* the server has received the group over this connection */
	bool is_reported;  /* ... or has said over it that it knows the group */
	bool wants;        /* the server has asked for more, and waits for the reply */
	bool wants_spare;  /* ... or for what is spare */
	bool is_collected; /* the other servers were asked to return what they do not use */
	bool must_return;  /* the server has to be asked for that */
	bool is_returning; /* ... and has not replied yet */
	bool is_due;       /* the server has to be sent its lease */
	bool is_reply;     /* ... as the reply */
	uint64_t lease[DEVICES_MAX]; /* the most that its clients have, by its ordinals */
	uint64_t want[DEVICES_MAX];
};

/* The limits of the group on the server's GPUs. */
struct frame_limits group_shares_limits(const struct server *server, const struct group *group);

/*
 * Sends a group to a server unless the server has it. 0, -EAGAIN (later), -ENOMEM or another
 * -errno.
 */
int group_shares_send(struct server *server, struct group *group);

/* The connection is writable again: sends everything that is due. */
void group_shares_send_due(struct server *server);

/*
 * The clients of the server may move to the successor, which gets the groups, without leases; and
 * have moved: it has the leases, too. 0, -EAGAIN (again when it is writable), or another -errno.
 */
int group_shares_copy(struct server *server, struct server *successor);
void group_shares_move(struct server *server, struct server *successor);

/* Its settings have changed: sends them to the servers that know the group. */
void group_shares_changed(struct daemon *daemon, struct group *group);
void group_shares_changed_all(struct daemon *daemon);

/* The server has a new connection, or has lost it. */
void group_shares_on_link(struct server *server);

/* The server has introduced all its groups. */
void group_shares_on_report(struct server *server);

/* FRAME_GROUP_HERE, FRAME_LEASE_WANT and FRAME_LEASE_RETURN. 0 or -errno. */
int group_shares_on_here(struct server *server, const struct frame_group_here *frame);
int group_shares_on_want(struct server *server, const struct frame_lease *frame);
int group_shares_on_return(struct server *server, const struct frame_lease *frame);

/* The server has ended. */
void group_shares_end(struct server *server);

/* Removes a group that has no clients. */
void group_shares_remove(struct groups *groups, struct group *group);

#endif
