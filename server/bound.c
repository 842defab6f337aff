/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions at their limits. A worker.
 *
 * Invariant: a client at its bound waits here for at most a second at a time. It delays
 * other clients only by deferred calls that are made earlier.
 */

#include "bound.h"

#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device_quota.h"
#include "server/graph/graph.h"
#include "server/graph/graph_twin.h"

static void bound_log(struct session *session, enum resource resource, uint64_t amount)
{
	char text[ACCOUNT_TEXT];

	if (session->is_bound_logged[resource])
		return;
	session->is_bound_logged[resource] = true;
	account_explain(session->account, resource, amount, text);
	log_line("Client " SESSION_NAME " gets CUDA_ERROR_OUT_OF_MEMORY: %s",
		SESSION_NAME_ARGS(session), text);
	log_line("Client " SESSION_NAME " has %u libraries, %u kernels, %u linkers, %u graphs "
		 "with %u nodes, %u events, %u arrays, %u textures, %u allocations",
		SESSION_NAME_ARGS(session), session->libraries.n_used, session->kernels.n_used,
		session->linkers.n_used, session->graphs.n_used,
		(unsigned)account_taken(session->account, RESOURCE_GRAPH_NODES),
		session->events.n_used, session->arrays.n_used, session->textures.n_used,
		session->allocations.n_used);
}

static void bound_set_refusal(struct session *session, enum memory_refusal refusal, uint64_t limit)
{
	shm_store64(&session->page->refusal_limit, limit);
	shm_store32(&session->page->refusal, refusal);
}

bool bound_met(void *arg, enum resource resource, uint64_t amount, unsigned round)
{
	struct session *session = arg;

	if (atomic_load(&session->is_ending) || session->can_do_without)
		return false;
	if (round == 0) {
		const bool has_ended = graph_twins_reclaim(session);

		if (graphs_wait_for_ends(session) || has_ended)
			return true;
	}
	bound_log(session, resource, amount);
	if (resource == RESOURCE_HOST_MEMORY)
		bound_set_refusal(session, REFUSAL_BY_HOST, account_limit(session->account));
	return false;
}

void bound_note_refusal(struct session *session)
{
	enum memory_refusal refusal = REFUSAL_NONE;
	uint64_t limit = 0;

	for (unsigned i = 0; i < DEVICES_MAX && refusal == REFUSAL_NONE; i++)
		refusal = device_quota_take_refusal(atomic_load(&session->quotas[i]), &limit);
	if (refusal != REFUSAL_NONE)
		bound_set_refusal(session, refusal, limit);
}
