/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BORROWERS_H
#define BORROWERS_H

/*
 * Ends clients that have memory beyond their soft limits (soft_limit.h), when that memory cannot
 * leave for the store and a session inside its own soft limit needs it. Workers.
 */

#include "base.h"

struct eviction_lack;
struct session;

/*
 * The session lacks memory, which others have borrowed and which cannot leave: ends the client
 * that has borrowed most, of those whose end frees so much, as if the operator had terminated it,
 * and waits until it has ended. At most one for each message. Returns whether to try again; false:
 * there is none, or it has not ended in time.
 */
bool borrowers_end_one(struct session *session, const struct eviction_lack *lack);

/* The session has ended, with all that it had on GPUs. */
void borrowers_note_end(struct session *session);

#endif
