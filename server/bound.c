/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions at their bounds. A worker.
 *
 * Invariant: a client at its bound waits here for at most a second at a time. It delays
 * other clients only by deferred calls that are made earlier.
 */

#include "bound.h"

#include <time.h>

#include "server/driver/deferred.h"
#include "server/session/fault.h"
#include "server/util/log.h"
#include "server/session/session.h"

/* How long to wait for deferred calls. */
#define ENDS_ROUNDS 100
#define ENDS_SLEEP_NS 10000000L

/* Waits for deferred calls. False: there are none. */
static bool bound_wait_for_ends(const struct session *session)
{
	uint64_t n = deferred_n_added();

	if (deferred_has_made(n))
		return false;
	deferred_reclaim();
	for (int i = 0; i < ENDS_ROUNDS && !deferred_has_made(n) && fault_get() == CUDA_SUCCESS &&
			!atomic_load(&session->is_ending);
		i++)
		nanosleep(&(struct timespec){.tv_nsec = ENDS_SLEEP_NS}, NULL);
	return true;
}

static void bound_log(struct session *session, uint64_t amount)
{
	char text[ACCOUNT_TEXT];

	if (session->is_bound_logged)
		return;
	session->is_bound_logged = true;
	account_explain(session->account, amount, text);
	log_line("Client " SESSION_NAME " gets CUDA_ERROR_OUT_OF_MEMORY: %s",
		SESSION_NAME_ARGS(session), text);
	log_line("Client " SESSION_NAME " has %u libraries, %u kernels, %u linkers, %u graphs "
		 "with %u nodes, %u events, %u arrays, %u textures, %u allocations",
		SESSION_NAME_ARGS(session), session->libraries.n_used, session->kernels.n_used,
		session->linkers.n_used, session->graphs.n_used, session->n_graph_nodes,
		session->events.n_used, session->arrays.n_used, session->textures.n_used,
		session->allocations.n_used);
}

bool bound_met(void *arg, uint64_t amount, unsigned round)
{
	struct session *session = arg;

	if (atomic_load(&session->is_ending))
		return false;
	if (round == 0 && bound_wait_for_ends(session))
		return true;
	bound_log(session, amount);
	return false;
}
