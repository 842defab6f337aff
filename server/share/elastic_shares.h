/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_SHARES_H
#define ELASTIC_SHARES_H

/*
 * The shares of a GPU's SMs that a background session changes between (elastic.h): green contexts,
 * which all background sessions of the GPU have in common. The session's worker only.
 */

#include "sm_share.h"
#include "server/schedule/elastic.h"

struct session_device;

struct elastic_shares {
	unsigned n;                       /* 0: the session has no such shares */
	unsigned groups[SHARE_SIZES_MAX]; /* ascending; the last ones are the session's own */
	struct sm_share shares[SHARE_SIZES_MAX]; /* all but the last one */
};

/*
 * Makes the shares of a background session, once: the driver waits for all work on the GPU when it
 * makes a green context. Without them the session keeps the SMs that it has.
 */
void elastic_shares_take(struct session *session, struct session_device *sdev);

/* No work of the session is on them. */
void elastic_shares_give(struct session_device *sdev, bool device_lost);

/* The largest share with at most that many groups; there are shares. */
unsigned elastic_shares_find(const struct elastic_shares *elastic, unsigned groups);

/* The last share: the session's own SMs. */
static inline unsigned elastic_shares_own(const struct elastic_shares *elastic)
{
	return elastic->n > 0 ? elastic->n - 1 : 0;
}

/*
 * Makes the context of a share that is not the last one current, for nodes of graphs that are made
 * or changed before session_device_enter().
 */
CUresult elastic_shares_enter(
	struct session *session, const struct session_device *sdev, unsigned share);

#endif
