/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUP_LINK_H
#define GROUP_LINK_H

/*
 * What the daemon and this server tell each other about groups of clients and about leases of
 * the groups' memory (server/session/lease.h). Loop thread.
 */

#include <stdbool.h>

struct frame_group;
struct frame_lease;

/*
 * FRAME_GROUP of the daemon. True: the limits of a group are new; call group_link_look() when its
 * clients know them.
 */
bool group_link_take(const struct frame_group *frame);

/* FRAME_LEASE and FRAME_LEASE_RETURN of the daemon. */
void group_link_take_lease(const struct frame_lease *frame);
void group_link_give_back(const struct frame_lease *frame);

/* Asks the daemon for what workers wait for. */
void group_link_look(void);

/* Clients of another server are here: a daemon that was new meanwhile learns what they have. */
void group_link_report_moved(void);

/* The connection is new: the daemon learns which groups have clients here, and their leases. */
void group_link_introduce(void);

#endif
