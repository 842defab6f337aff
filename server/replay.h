/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

/*
 * A session's objects are made again from its record (server/record/record.h), as another server
 * will do: at the session's first message, by the messages that made them. Memory is not replayed,
 * and must be at its addresses already. The session's worker only.
 */

#include <stdbool.h>

struct record_saved;
struct record_script;
struct session;

/*
 * Before the first session: reads MPS_TEST (replay: whenever a session rests, its objects end, and
 * are made again before its next message).
 */
void replay_init(void);
bool replay_is_test(void);

/* Why the objects of the session, which is at rest, cannot be made again now; NULL: they can. */
const char *replay_obstacle(struct session *session);

/* Writes the record into a file, with what the parts of the session note. 0 or -errno. */
int replay_save(struct session *session, struct record_saved *ret_saved);

/* The session, which has none of these objects, makes them before its next message. Takes it. */
void replay_expect(struct session *session, struct record_script *script);

/*
 * Makes the objects now. False: one of them is not the same, so the client cannot go on; the log
 * has the reason.
 */
bool replay_run(struct session *session);

/* The session is at rest, in a test: ends its objects, if they can be made again. */
void replay_leave(struct session *session);

#endif
