/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_MOVE_H
#define SESSION_MOVE_H

/*
 * What a session itself takes to another server: its place in the ring, its errors and counters,
 * and the words of its page. The parts add what they have (session_part.h).
 */

#include "layout.h"
#include "shm.h"

struct pack;
struct session;

/*
 * Why the session has to stay in its server, as a clause about "it"; NULL: it can move. The
 * session's worker.
 */
const char *session_stays(const struct session *session);

/* The worker, whose session is at rest; the other server, before the worker starts. 0 or -errno. */
int session_pack(struct session *session, struct pack *pack);
int session_unpack(struct session *session, struct pack *pack);

/*
 * Whether a session of this server has the same facts in its page as the session that comes from
 * another one.
 */
bool session_fits(const struct session *session, const struct page __shm *before);

/* Copies what the server and the GPU have written into the page of the other server. */
void session_take_words(struct session *session, struct page __shm *before);

#endif
