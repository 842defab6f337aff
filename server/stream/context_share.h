/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_SHARE_H
#define CONTEXT_SHARE_H

/*
 * Contexts of a client that have fewer SMs than the client: each has a share of
 * its own, among the SMs of the client, and a NULL stream of its own. The session's
 * worker only.
 */

#include "server/driver/session_device.h"

struct session;
struct session_room;

struct context_share {
	uint32_t id;
	uint32_t refs;               /* the id's, its streams' and those of nodes of graphs */
	struct session_device *sdev; /* not owned */
	struct sm_share sms;
	struct turns turns;
};

/* The share stays though its id has gone, until the last reference has. */
struct context_share *context_share_ref(struct context_share *share);
void context_share_unref(struct context_share *share, bool device_lost); /* NULL is fine */

/*
 * Makes the context of these SMs the worker's, for the nodes of graphs that are made or changed
 * before it calls context_share_leave(). NULL: the context of the sdev is current already.
 */
CUresult context_share_enter(struct session *session, const struct context_share *share);
CUresult context_share_leave(struct session *session, const struct context_share *share);

/* What is done for each session: see session_room.h. */
extern const struct session_room context_shares_room;

#endif
