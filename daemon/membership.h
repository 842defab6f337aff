/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMBERSHIP_H
#define MEMBERSHIP_H

/*
 * Which group a client is in: the one that its MPS_GROUP names, or, with
 * MPS_GROUP_BY_CGROUP=1 in the daemon's environment, that of its cgroup, which
 * it cannot leave by MPS_GROUP. Loop thread.
 */

#include "base.h"

struct conn;

/* Sets the client's group. False: it has been refused, which closes it. */
bool membership_decide(struct conn *conn);

#endif
