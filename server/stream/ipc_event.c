/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events that clients share. Several workers at a time.
 *
 * Invariant: a shared event is on the list while an event of some session refers to it.
 */

#include "ipc_event.h"

#include <string.h>

#include "event.h"
#include "lock.h"
#include "server/util/token.h"
#include "server/session/session.h"
#include "server/share/session_devices.h"

struct shared_event {
	struct shared_event *next;
	struct token token;
	uid_t uid; /* of its user: other users may not open it */
	CUevent real;
	uint32_t device;
	uint32_t n_refs; /* sessions' events */
};

static struct lock lock = LOCK_INIT(IPC_EVENTS);
static struct shared_event *shared_events;

CUresult do_ipc_event_export(
	struct session *session, struct event *event, uint32_t device, uint64_t ret_token[2])
{
	struct shared_event *shared = event->shared;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = event_make(event, sdev);
	if (result != CUDA_SUCCESS)
		return result;
	if (!shared) {
		shared = account_alloc(session->account, sizeof(*shared), KEPT_EVENT);
		if (!shared || !token_make(&shared->token)) {
			account_free(shared);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		account_unkeep(event, KEPT_EVENT);
		shared->uid = session->uid;
		shared->real = event->real;
		shared->device = device;
		shared->n_refs = 1;
		lock_take(&lock);
		LIST_PUSH(shared_events, shared);
		lock_release(&lock);
		event->shared = shared;
	}
	memcpy(ret_token, shared->token.words, sizeof(shared->token.words));
	return CUDA_SUCCESS;
}

/* Takes a reference; NULL: there is no such event. */
static struct shared_event *shared_event_ref(uid_t uid, const uint64_t token[2])
{
	struct shared_event *shared;

	lock_take(&lock);
	shared = shared_events;
	while (shared && (shared->uid != uid || !token_is(&shared->token, token)))
		shared = shared->next;
	if (shared)
		shared->n_refs++;
	lock_release(&lock);
	return shared;
}

static void shared_event_unref(struct shared_event *shared, bool device_lost)
{
	struct shared_event **link = &shared_events;
	bool is_last;

	lock_take(&lock);
	is_last = --shared->n_refs == 0;
	while (is_last && *link != shared)
		link = &(*link)->next;
	if (is_last)
		*link = shared->next;
	lock_release(&lock);
	if (!is_last)
		return;
	if (!device_lost)
		cuda.cuEventDestroy_v2(shared->real);
	account_free(shared);
}

bool ipc_event_end(struct event *event, bool device_lost)
{
	if (!event->shared)
		return false;
	shared_event_unref(event->shared, device_lost);
	return true;
}

CUresult do_ipc_event_open(struct session *session, uint32_t id, const uint64_t token[2])
{
	struct shared_event *shared = shared_event_ref(session->uid, token);
	CUresult result = shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	struct session_device *sdev = NULL;
	struct event *event;

	if (result == CUDA_SUCCESS)
		result = session_device_open(session, shared->device, &sdev);
	if (result == CUDA_SUCCESS)
		result = do_event_create(session, id, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS) {
		if (shared)
			shared_event_unref(shared, false);
		return result;
	}
	event = session_event(session, id);
	account_unkeep(event, KEPT_EVENT);
	event->shared = shared;
	event->real = shared->real;
	event->sdev = sdev;
	return CUDA_SUCCESS;
}

/* If other clients record the event, too, no seqno shows that it is done. So ask the driver. */
CUresult do_ipc_event_query(struct session *session, struct event *event)
{
	CUresult result;

	if (!event->real)
		return CUDA_SUCCESS;
	result = session_device_enter(session, event->sdev);
	return result == CUDA_SUCCESS ? cuda.cuEventQuery(event->real) : result;
}
