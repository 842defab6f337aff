/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_SHARE_H
#define CONTEXT_SHARE_H

/*
 * Contexts of a client that have fewer SMs than the client. Each has its own share, among
 * the SMs of the client, and its own NULL stream. The session's worker only.
 */

#include "session_device.h"

struct session;

struct context_share {
	uint32_t id;
	uint32_t refs;               /* of the ID, of its streams and of nodes of graphs */
	struct session_device *sdev; /* not owned */
	struct sm_share sms;
	struct turns turns;
};

/* Keeps the share until the last reference is dropped, also after the ID has ended. */
struct context_share *context_share_ref(struct context_share *share);
void context_share_unref(struct context_share *share, bool device_lost); /* NULL is fine */

/*
 * Makes the context of these SMs current for the nodes of graphs that are made or changed
 * before context_share_leave(). NULL: the context of the sdev is current already.
 */
CUresult context_share_enter(struct session *session, const struct context_share *share);
CUresult context_share_leave(struct session *session, const struct context_share *share);

#endif
