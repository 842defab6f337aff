/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEASE_H
#define LEASE_H

/*
 * A lease says how much of a group's memory limit the clients of this server may use together.
 * The daemon divides the limit among all servers that have clients of the group.
 *
 * The group's quota has the whole limit, and counts as used what the lease lacks of that limit.
 * So a charge never exceeds the lease, even while the lease changes.
 *
 * A worker whose allocation exceeds the lease asks for more and waits for the daemon's reply.
 * Without that reply the allocation fails.
 */

#include <stdatomic.h>

#include "bounds.h"
#include "frame.h"

struct group;
struct session;

/* How long a worker waits for the daemon and, behind it, for the other servers. */
#define LEASE_WAIT_MS 4000

struct lease_want {
	uint64_t bytes[DEVICES_MAX]; /* that are missing */
	uint64_t spare[DEVICES_MAX]; /* 1: a worker wants to know what is spare */
};

struct lease {
	_Atomic uint64_t away[DEVICES_MAX];  /* set by the loop: the limit without the lease */
	_Atomic uint64_t spare[DEVICES_MAX]; /* set by the loop: as of the last reply */
	/* Under a lock: */
	struct lease_want wanted; /* no frame has asked for it yet */
	struct lease_want asked;  /* by the frame that waits for a reply */
	uint64_t n_wants, n_asked, n_replies;
	bool is_overdue; /* a worker has given up: no worker waits until a reply comes */
};

/* The loop: new limits of the group. The lease stays, unless the limit is lower. */
void lease_set_limits(struct group *group, const uint64_t limits[DEVICES_MAX]);

/* The loop: FRAME_LEASE. */
void lease_take(struct group *group, const struct frame_lease *frame);

/* The loop: gives back what is unused. `ret_lease' is the lease from now on. */
void lease_give_back(struct group *group, uint64_t ret_lease[DEVICES_MAX]);

/* The loop: the lease, and what members have beyond it. */
void lease_get(const struct group *group, uint64_t ret_lease[DEVICES_MAX]);

/*
 * The loop: fills in the next FRAME_LEASE_WANT. False: no worker waits, or a frame waits for its
 * reply.
 */
bool lease_next_want(struct group *group, struct frame_lease *frame);

/* The loop: the reply to the last FRAME_LEASE_WANT will not come, so the next one repeats it. */
void lease_lose_reply(struct group *group);

/*
 * The worker: if the leases of the session's groups lack space for `size' bytes, asks the daemon
 * for more and waits. True: one has space now. False: none has, or none has lacked it.
 */
bool lease_extend(struct session *session, uint32_t ordinal, uint64_t size);

/*
 * The worker: how much all groups of the session leave, with what no server uses of their limits.
 * Asks the daemon. UINT64_MAX: there is no limit.
 */
uint64_t lease_left(struct session *session, uint32_t ordinal);

#endif
