/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of a borrower. Workers.
 *
 * Invariant: at most one session has to end at a time, so that its memory is there before another
 * one is chosen.
 */

#include "borrowers.h"

#include "clock.h"
#include "eviction.h"
#include "host_store.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/schedule/gate.h"

/* As for a session that has to stop (eviction_turn.c): its last kernel may take long. */
#define END_NS UINT64_C(15000000000)

static atomic_bool is_one_ending;

static void log_end(const struct session *session, const struct eviction_lack *lack,
	const struct eviction_ended *ended)
{
	log_line("Client " SESSION_NAME " is ended with error 810: client " SESSION_NAME
		 ", which is inside its soft limit, lacks %llu MiB of device %u. The ended client "
		 "had borrowed most, %llu MiB, and they cannot leave (%s). To prevent this, raise "
		 "MPS_OVERSUBSCRIBE_HOST (now %llu MiB, of which %llu are free), or limit the "
		 "memory of clients that borrow",
		(int)ended->pid, ended->id, SESSION_NAME_ARGS(session),
		(unsigned long long)(lack->bytes + (1 << 20) - 1) >> 20, lack->device,
		(unsigned long long)ended->borrowed >> 20,
		ended->stay == STAY_NOTHING ? "it is of a kind that stays"
					    : eviction_stay_text(ended->stay),
		(unsigned long long)host_store_limit() >> 20,
		(unsigned long long)(host_store_limit() - host_store_used()) >> 20);
}

/* Whether a client ends now, for this session or for another one. */
static bool begin(struct session *session, const struct eviction_lack *lack)
{
	struct eviction_ended ended;
	bool is_other = false;

	/* `n_messages' may be 0 in the first message. */
	if (session->eviction->ended_at == session->n_messages + 1)
		return atomic_load(&is_one_ending);
	if (!atomic_compare_exchange_strong(&is_one_ending, &is_other, true))
		return true;
	if (!eviction_end_borrower(session, lack, &ended)) {
		atomic_store(&is_one_ending, false);
		return false;
	}
	session->eviction->ended_at = session->n_messages + 1;
	log_end(session, lack, &ended);
	return true;
}

bool borrowers_end_one(struct session *session, const struct eviction_lack *lack)
{
	struct gate_wait wait = gate_wait(GATE_VICTIM, session);

	if (!begin(session, lack))
		return false;
	wait.end_ns = now_ns() + END_NS;
	while (atomic_load(&is_one_ending) && gate_again(&wait))
		;
	gate_end(&wait);
	return !atomic_load(&is_one_ending);
}

void borrowers_note_end(struct session *session)
{
	if (atomic_load(&session->has_to_end))
		atomic_store(&is_one_ending, false);
}
