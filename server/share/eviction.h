/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVICTION_H
#define EVICTION_H

/*
 * Eviction: the memory of an idle session leaves a GPU for the store (host_store.h), because
 * another session needs space there. Addresses stay. The session's own worker moves it, while the
 * session is at rest (server/memory/away.h), and all of it is back before the session's next
 * message that can use it.
 *
 * This file knows which sessions have memory on GPUs, asks them to evict it, and counts. A session
 * is on the list from its first GPU to its end. Any thread, except for the functions of workers.
 */

#include <stdatomic.h>
#include <sys/types.h>

#include "base.h"
#include "bounds.h"
#include "eviction_stay.h"

struct group;
struct session;

/* Bits of session::memory_wanted: what the worker has to look at before its next message. */
#define WANTED_TRIM 1u     /* memory is short: give back what is unused */
#define WANTED_EVICTION 2u /* the session is asked to evict memory, or held */
#define WANTED_TURN_END 8u /* the session has got the space that it has waited for */
#define WANTED_REPLAY                                                                              \
	16u /* its objects have to be made again. Only the worker sets and clears it */
#define WANTED_KEPT                                                                                \
	64u /* messages that another server has fetched come before the next ones. As the last one \
	     */
#define WANTED_STAYS 32u    /* the daemon has asked whether the session can move (departure.h) */
#define WANTED_DROPPED 128u /* a fault has cost it work, and what it sends may be dropped, too */
#define WANTED_RETURN 4u    /* some of its memory is away. Only the worker sets and clears it */

#define EVICTION_ALL UINT64_MAX

/* What a session lacks: memory of a GPU, or room in a group, of which members alone can leave. */
struct eviction_lack {
	uint32_t device;
	uint64_t bytes;
	const struct group *within; /* NULL: the GPU is full */
};

/* What a session is asked for. */
struct eviction_request {
	uint32_t device;
	uint64_t bytes;
};

/*
 * Turns. Sessions that are at work and do not fit on a GPU together have it in turn. A session
 * whose memory is there stays for MPS_OVERSUBSCRIBE_STAY at least. Then the session that waits for
 * longest makes another one stop: its worker executes no message that can use memory, until its
 * work on GPUs has ended and its memory has left. So a session waits no longer than all others
 * together stay, finish what they have launched, and move. Work that does not end keeps its memory.
 */
struct eviction_turn {
	uint64_t here_ns;  /* its stay began then */
	uint64_t waits_ns; /* since when it waits for its turn; 0: it does not */
	uint64_t gpus;     /* ... on these, as bits: one turn for all of them */
	bool has_begun;    /* others have left for it: no other may come back there meanwhile */
};

/* A session's part. */
struct eviction {
	struct session *session; /* NULL: not on the list */
	struct eviction *next;   /* under the lock, as the next ones */
	enum {
		EVICTION_IDLE,
		EVICTION_ASKED,
		EVICTION_GOING
	} state;
	struct eviction_request request;
	uint64_t given;    /* bytes: the answer to the last request */
	uint64_t attempt;  /* that asked last */
	uint64_t waits_ns; /* since when it waits for space to come back; 0: it does not */
	bool is_busy;      /* its worker moves memory, or waits for that of others */
	struct eviction_turn turn;
	bool has_lasted; /* it had to stop, and its work, which was that far, did not end */
	uint64_t lasting_progress;

	/* The worker writes, any thread reads. */
	_Atomic uint64_t idle_since_ns;      /* the end of its last message or work, about */
	_Atomic uint64_t away[DEVICES_MAX];  /* bytes that are in the store */
	_Atomic uint64_t move_ns;            /* how long the last way back took */
	_Atomic uint64_t away_since_ns;      /* 0: nothing is away */
	_Atomic uint64_t away_ns;            /* together, before that */
	_Atomic uint64_t n_moves, n_returns; /* how often it left, and came back */
	_Atomic uint64_t bytes_out, bytes_in;
	_Atomic uint32_t stay; /* enum eviction_stay, of what stayed last */

	/* Any thread writes. */
	atomic_bool is_held;   /* see eviction_hold() */
	atomic_bool must_stop; /* for the turn of another session: see eviction_take_turn() */

	/* The worker's, while it has to stop: how far its work was, and since when. */
	uint64_t stop_progress, stop_ns;

	uint64_t lease_asked_ns; /* the worker's: when it asked last for room in a group */

	enum eviction_stay found; /* the worker's: why its last attempt has brought nothing */
	uint64_t ended_at;        /* the worker's: the message for which a borrower had to end */
};

/*
 * Before the first session: reads MPS_TEST (evict: each session evicts all it can whenever it
 * rests), and the limit of the store.
 */
void eviction_init(void);
bool eviction_is_test(void);

/* The worker: the session has nothing more to do for now. */
void eviction_note_idle(struct session *session, uint64_t now);

/* Whether all memory of this session may leave, and that of others for it (`oversubscribe'). */
bool eviction_is_allowed(const struct session *session);

/*
 * Whether others may have to make space for `size' more bytes of the session: `oversubscribe' is
 * on, or the session stays inside its soft limit (soft_limit.h), for which borrowed memory leaves.
 */
bool eviction_may_ask(const struct session *session, uint32_t device, uint64_t size);

/*
 * How large the store has to be for the next move: for what is in it, and what leaves when the
 * session with most bytes away comes back. While nothing is away: an eighth of its limit if clients
 * have nearly all memory of a GPU, else 0. Any thread.
 */
uint64_t eviction_store_size(void);

/* Any thread, while the session lives: bytes that are away now, on all GPUs. */
uint64_t eviction_bytes(const struct session *session);
uint64_t eviction_ns(const struct session *session); /* how long any were away, until now */

/*
 * Any thread, while the session lives. While a session is held, its worker evicts all it can as
 * soon as the session is at rest, and the client's messages that can use memory wait.
 */
void eviction_hold(struct session *session, bool is_held);

/* ---- workers */

/* The session has opened a GPU. It ends: whether no session is on the list now. */
void eviction_join(struct session *session);
bool eviction_leave(struct session *session);

/* Asks every session to give back what it does not use. */
void eviction_ask_for_unused(void);

/*
 * Asks sessions at rest, longest idle first, to evict what the session lacks together, and waits
 * for their answers. Returns how many bytes have left. Fewer than it lacks: `*ret_stay' is the
 * reason of the last one; STAY_AT_WORK: another attempt may find more at rest. `since_ns': when the
 * session began to wait for space to come back, 0 for new memory, which comes first.
 */
uint64_t eviction_make_space(struct session *session, const struct eviction_lack *lack,
	uint64_t since_ns, enum eviction_stay *ret_stay);

/*
 * The same if sessions at work are all that is left: waits until one of them has stopped, and has
 * evicted what it can. 0: it is not the turn of this session, no other session has stayed for long
 * enough, or the one that had to stop could not leave. eviction_end_turn(): the session has its
 * space, or gives up.
 */
uint64_t eviction_take_turn(
	struct session *session, const struct eviction_lack *lack, enum eviction_stay *ret_stay);
void eviction_end_turn(struct session *session);

/* The turn has brought nothing, and goes behind those of others. */
void eviction_postpone_turn(struct session *session);

/*
 * The session waits for space since `since_ns', or since an earlier call: on all GPUs to which its
 * memory has to come back, and on `more' (bits). Whether it may try now: no other session has begun
 * to get space on one of them, which this one would take.
 */
bool eviction_may_try(struct session *session, uint64_t more, uint64_t since_ns);

/*
 * Has the loop end the session that has borrowed most, of those whose end frees enough; without
 * waiting (borrowers.h). False: there is none.
 */
struct eviction_ended {
	pid_t pid;
	uint32_t id;
	uint64_t borrowed;
	enum eviction_stay stay; /* why its memory did not leave */
};

bool eviction_end_borrower(struct session *session, const struct eviction_lack *lack,
	struct eviction_ended *ret_ended);

/* How long a session may have to wait until it has had its turn. */
uint64_t eviction_turn_ns(void);

/* Whether it may execute no message that can use memory, for now. */
static inline bool eviction_must_wait(const struct eviction *own)
{
	return atomic_load(&own->is_held) || atomic_load(&own->must_stop);
}

/* How far the session's work is, as far as the GPU has told. Any thread, while the session lives.
 */
uint64_t eviction_progress(const struct session *session);

/* The victim: takes the request, if any. Answer it soon. */
bool eviction_take_request(struct session *session, struct eviction_request *ret_request);
void eviction_answer(struct session *session, uint64_t bytes, enum eviction_stay stay);

/*
 * The worker moves memory or waits for that of others, and takes no request meanwhile. `waits_ns':
 * except that since then it waits for space to come back, and takes one between two attempts.
 */
void eviction_set_busy(struct session *session, bool is_busy, uint64_t waits_ns);

/* The worker: so many bytes of that GPU are away now. */
void eviction_note_away(struct session *session, uint32_t device, uint64_t bytes);

/* Bytes with which other sessions (of the group; NULL: all) would make space on that GPU. */
uint64_t eviction_others(
	const struct session *session, uint32_t device, const struct group *within);

#endif
