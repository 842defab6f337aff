/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVICTION_LIST_H
#define EVICTION_LIST_H

/*
 * The list of sessions with memory on GPUs, for eviction.c, which has it, eviction_turn.c and
 * eviction_choice.c. Functions that say nothing else are called under its lock.
 */

#include "eviction.h"
#include "lock.h"
#include "server/schedule/gate.h"

extern struct lock eviction_lock;
extern struct eviction *evictions;

/* MPS_OVERSUBSCRIBE_STAY. Set once: any thread. */
uint64_t eviction_stay_ns(void);

/* What the session has on that GPU: also arrays and the like, which cannot leave. */
uint64_t eviction_present(const struct eviction *one, uint32_t device);

/*
 * What may leave for the other session: all of it, or what is borrowed. Of two whose memory comes
 * back, which both have only a part, all: else neither might get the rest.
 */
uint64_t eviction_may_leave(
	const struct eviction *one, const struct session *other, const struct eviction_lack *lack);

/* Whether the session is a member. NULL has all as members. */
bool eviction_is_in(const struct session *session, const struct group *group);

/* Whether it had to stop already, and the same work still goes on. */
bool eviction_is_lasting(const struct eviction *one);

/* Any thread, while the session lives: its worker looks at `what' before its next message. */
void eviction_want(struct session *session, unsigned what);

/* Asks this session. */
void eviction_ask(struct eviction *one, uint32_t device, uint64_t bytes);

/* Collects reasons: another attempt may succeed as long as somebody is at work. */
void eviction_note_stay(enum eviction_stay *stay, enum eviction_stay other);

/*
 * Without the lock: waits for the answer of session `id', which was asked, and returns the bytes. A
 * request that its worker has not taken after `most_ns' is withdrawn.
 */
uint64_t eviction_wait(struct session *session, uint32_t id, enum gate gate, uint64_t most_ns,
	enum eviction_stay *stay);

/* Which of two that wait for the same GPUs (bits) comes first. */
bool eviction_precedes(const struct eviction *one, const struct eviction *other, uint64_t gpus);

/*
 * Without the lock: others have left for this session. If it is the first that waits, no other
 * may take the space; else those that wait for longer may.
 */
void eviction_begin_turn(struct session *session);

#endif
