/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

/*
 * A session's objects are made again from its record (server/record/record.h), as another server
 * will do: at the session's first message, by the messages that made them. Memory is not replayed,
 * and must be at its addresses already. The session's worker only.
 */

#include <stdbool.h>

struct pack;
struct session;

/*
 * Before the first session: reads MPS_TEST (replay: whenever a session rests, its objects end, and
 * are made again before its next message).
 */
void replay_init(void);
bool replay_is_test(void);

/*
 * The session, which is at rest and whose objects can be made again, moves to another server: puts
 * its record into the pack, with what its parts note. 0 or -errno.
 */
int replay_pack(struct session *session, struct pack *pack);

/* In the other server: checks the record, and has its objects made before the next message. */
int replay_unpack(struct session *session, struct pack *pack);

/*
 * Makes the objects now. False: one of them is not the same, so the client cannot go on; the log
 * has the reason.
 */
bool replay_run(struct session *session);

/* The session is at rest, in a test: ends its objects, if they can be made again. */
void replay_leave(struct session *session);

#endif
