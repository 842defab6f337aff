/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AWAY_H
#define AWAY_H

/*
 * The memory of a session leaves its GPUs, and comes back: what a session's worker does when
 * another session needs space (server/share/eviction.h). The session's worker only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base.h"

struct gate_wait;
struct session;

/*
 * The ring is empty, and session::memory_wanted is set: does what is wanted, if the session is at
 * rest.
 */
void away_serve(struct session *session);

/* The session has executed messages, so it is not idle: answers a request with that. */
void away_refuse(struct session *session);

/*
 * The session is idle, also while its memory is away: makes the store larger for the next move, by
 * one piece, until a message comes. Returns for how many milliseconds the worker may sleep; -1: for
 * as long as it wants.
 */
int away_warm_store(struct session *session);

/* The session has come from another server, also what was away there. */
void away_note_arrival(struct session *session);

/* All that may leave does, if the session is at rest; later calls take what has come since. */
void away_leave(struct session *session);

/*
 * Brings everything back, before a message that can use it. Waits for space, and as long as the
 * session is held. False: the session ends, or the device is lost.
 */
bool away_return(struct session *session);

/*
 * gate_again() of a session that waits for space since `since_ns'. Meanwhile, if it is at rest,
 * sessions that wait for longer may have its memory.
 */
bool away_pause(struct session *session, struct gate_wait *wait, uint64_t since_ns);

#endif
