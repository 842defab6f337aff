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
 * The worker, whose session is at rest: why its objects cannot be made again, as a clause; NULL:
 * they can.
 */
const char *session_obstacle(struct session *session);

/* The same, and why the rest cannot move to another server. */
const char *session_stays(struct session *session);

/* The worker, whose session is at rest; the other server, before the worker starts. 0 or -errno. */
int session_pack(struct session *session, struct pack *pack);

/* Whether the next function finds what it reads right. Needs no context, and takes nothing. */
int session_check(struct session *session, const struct pack *pack);
int session_unpack(struct session *session, struct pack *pack);

/*
 * Whether a session of this server has the same facts in its page as the session that comes from
 * another one.
 */
bool session_fits(const struct session *session, const struct page __shm *before);

/*
 * Copies what the server and the GPU have written into the page of the other server, except for
 * waits that were passed: this server counts them from 0 on. `fd' is the memory of that page, most
 * of which was never written: it takes no space here either.
 */
void session_take_words(struct session *session, const struct page __shm *before, int fd);

#endif
