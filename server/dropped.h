/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DROPPED_H
#define DROPPED_H

/*
 * A client with MPS_ON_FAULT=continue had work on a GPU at a fault. What it had there is dropped,
 * and so is all work that it has sent before it could know of the fault. It gets the fault's error
 * once, as a late error (reply_late()). What it sends besides is executed in the next server, so
 * its objects and timelines are as if the work had ended. The session's worker only.
 */

#include "layout.h"

struct session;

/*
 * In the server with the fault: the session, which fault_drops(), has no work any more. Why it
 * cannot go on; NULL: it can.
 */
const char *dropped_begin(struct session *session);

/*
 * Whether a message that was taken from the ring is part of that. While the session is dropping,
 * WANTED_DROPPED is set, and each message has to come here.
 */
bool dropped_takes(struct session *session, const struct message_head *msg);

#endif
