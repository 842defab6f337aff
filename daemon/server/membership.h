/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMBERSHIP_H
#define MEMBERSHIP_H

/*
 * Decides the group of a client: that of the namespace in whose directory it connects, or of the
 * namespace or, with MPS_GROUP_BY_CGROUP=1 in the daemon's environment, the group of its cgroup.
 * Else it is the group that its MPS_GROUP names. Loop thread.
 */

#include "base.h"

struct conn;
struct group;
struct server;

/* Sets the client's group. False: the client has been refused, which closes its connection. */
bool membership_decide(struct conn *conn);

/* Whether the server may have a client in the group: then its report that it has is believed. */
bool membership_is_possible(const struct server *server, const struct group *group);

#endif
