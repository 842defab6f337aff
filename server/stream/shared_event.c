/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The list of shared events, and how they move to another server: there, the first session that
 * has used an event makes it, with the same token, and its users wait for the replays. No work is
 * on a GPU then, so an event that was never recorded is as good as one that is done. Several
 * workers at a time.
 *
 * Invariant: a shared event is on the list while it has users. Only the worker of its session
 * changes a user. The lock is held briefly, and never during a driver call.
 */

#include "shared_event.h"

#include "lock.h"
#include "messages.h"
#include "server/util/pack.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/share/session_devices.h"

static struct lock lock = LOCK_INIT(IPC_EVENTS);
static struct shared_event *shared_events;

static struct event_user *user_new(struct session *session, uint32_t event)
{
	struct event_user *user = account_alloc(session->account, sizeof(*user), 0);

	if (user)
		*user = (struct event_user){.session = session->id, .event = event};
	return user;
}

/* The event with that token gets the user. False: there is none. */
static bool join(struct event_user *user, uid_t uid, const uint64_t token[2])
{
	lock_hold(&lock);
	struct shared_event *shared = shared_events;

	while (shared && (shared->uid != uid || !token_is(&shared->token, token)))
		shared = shared->next;
	if (!shared)
		return false;
	user->shared = shared;
	LIST_PUSH(shared->users, user);
	return true;
}

/* Its first user. */
static CUresult add(struct session *session, struct event_user *user, const struct token *token,
	uint32_t device, CUevent real)
{
	struct shared_event *shared = account_alloc(session->account, sizeof(*shared), KEPT_EVENT);

	if (!shared)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*shared = (struct shared_event){.token = *token,
		.uid = session->uid,
		.real = real,
		.device = device,
		.users = user};
	user->shared = shared;
	lock_take(&lock);
	LIST_PUSH(shared_events, shared);
	lock_release(&lock);
	return CUDA_SUCCESS;
}

CUresult shared_event_make(struct session *session, uint32_t event, uint32_t device, CUevent real,
	struct event_user **ret_user)
{
	struct event_user *user = user_new(session, event);
	struct token token;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (user && token_make(&token))
		result = add(session, user, &token, device, real);
	if (result == CUDA_SUCCESS)
		*ret_user = user;
	else
		account_free(user);
	return result;
}

CUresult shared_event_open(struct session *session, uint32_t event, const uint64_t token[2],
	struct event_user **ret_user)
{
	struct event_user *user = user_new(session, event);

	if (!user)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!join(user, session->uid, token)) {
		account_free(user);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret_user = user;
	return CUDA_SUCCESS;
}

/* Under the lock: the next one of the session, from `user' on. */
static struct event_user *user_of(struct event_user *user, uint32_t session)
{
	while (user && user->session != session)
		user = user->next;
	return user;
}

/* The same, of all events; `last' is NULL at first. */
static struct event_user *next_user(uint32_t session, const struct event_user *last)
{
	const struct shared_event *shared = last ? last->shared : shared_events;
	struct event_user *user = last ? user_of(last->next, session) : NULL;

	if (last && !user)
		shared = shared->next;
	while (shared && !user) {
		user = user_of(shared->users, session);
		shared = shared->next;
	}
	return user;
}

struct event_user *event_user_take(
	const struct session *session, uint32_t event, const uint64_t token[2])
{
	if (!recorded_is_replay(session))
		return NULL;
	lock_hold(&lock);
	struct event_user *user = next_user(session->id, NULL);

	while (user && (!user->is_waiting || user->event != event ||
			       (token && !token_is(&user->shared->token, token))))
		user = next_user(session->id, user);
	if (user)
		user->is_waiting = false;
	return user;
}

/* Under the lock. */
static void drop(const struct shared_event *shared)
{
	struct shared_event **link = &shared_events;

	while (*link && *link != shared)
		link = &(*link)->next;
	if (*link)
		*link = shared->next;
}

void event_user_free(struct event_user *user, bool device_lost)
{
	struct shared_event *shared = user->shared;
	bool is_last;

	lock_take(&lock);
	shared->had_victim |= device_lost;
	LIST_DROP(shared->users, user);
	is_last = !shared->users;
	if (is_last)
		drop(shared);
	lock_release(&lock);
	account_free(user);
	if (!is_last)
		return;
	if (!device_lost)
		cuda.cuEventDestroy_v2(shared->real);
	account_free(shared);
}

/* ---- to another server */

static const char *shared_events_obstacle(struct session *session)
{
	lock_hold(&lock);
	const struct event_user *user = next_user(session->id, NULL);

	while (user && !user->is_ended)
		user = next_user(session->id, user);
	/* The replay gives it another ID. */
	return user ? "a graph uses a shared event that was destroyed" : NULL;
}

/*
 * What the other session has queued may be behind the event, and does not move. After a fault, it
 * may have ended already.
 */
static bool shared_events_need(const struct session *session, const struct session *other)
{
	lock_hold(&lock);

	for (const struct shared_event *shared = shared_events; shared; shared = shared->next)
		if (user_of(shared->users, session->id) &&
			(shared->had_victim || (other && user_of(shared->users, other->id))))
			return true;
	return false;
}

static int shared_events_pack(struct session *session, struct pack *pack)
{
	const struct event_user *user;
	uint64_t n = 0;

	lock_hold(&lock);
	for (user = next_user(session->id, NULL); user; user = next_user(session->id, user))
		n++;
	pack_put_number(pack, n);
	for (user = next_user(session->id, NULL); user; user = next_user(session->id, user)) {
		pack_put_number(pack, user->event);
		pack_put_number(pack, user->shared->device);
		pack_put(pack, &user->shared->token, sizeof(user->shared->token));
	}
	return 0;
}

static CUresult make_again(struct session *session, struct event_user *user,
	const struct token *token, uint32_t device)
{
	struct session_device *sdev;
	CUevent real;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = cuda.cuEventCreate(&real, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	result = add(session, user, token, device, real);
	if (result != CUDA_SUCCESS)
		cuda.cuEventDestroy_v2(real);
	return result;
}

static int expect(
	struct session *session, uint32_t event, const struct token *token, uint32_t device)
{
	struct event_user *user;

	if (!session_device_get(session, device))
		return -EBADMSG;
	user = user_new(session, event);
	if (!user)
		return -ENOMEM;
	user->is_waiting = true;
	if (!join(user, session->uid, token->words)) {
		if (make_again(session, user, token, device) == CUDA_SUCCESS)
			return 0;
		account_free(user);
		return -EIO;
	}
	if (user->shared->device == device)
		return 0;
	event_user_free(user, false);
	return -EBADMSG;
}

static int unpack_all(struct session *session, struct pack *pack, bool is_check)
{
	const uint64_t n = pack_get_number(pack, WIRE_EVENTS_MAX);
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		uint32_t event = (uint32_t)pack_get_number(pack, WIRE_EVENTS_MAX - 1);
		uint32_t device = (uint32_t)pack_get_number(pack, DEVICES_MAX - 1);
		struct token token;

		pack_get(pack, &token, sizeof(token));
		if (pack->is_bad)
			return -EBADMSG;
		if (!is_check)
			r = expect(session, event, &token, device);
	}
	return pack->is_bad ? -EBADMSG : r;
}

static int shared_events_check(struct session *session, struct pack *pack)
{
	return unpack_all(session, pack, true);
}

static int shared_events_unpack(struct session *session, struct pack *pack)
{
	return unpack_all(session, pack, false);
}

static struct event_user *find_waiting(uint32_t session)
{
	lock_hold(&lock);
	struct event_user *user = next_user(session, NULL);

	while (user && !user->is_waiting)
		user = next_user(session, user);
	return user;
}

/* Events end with their users; these are of events that were not made again. */
static void shared_events_end(struct session *session, bool device_lost)
{
	struct event_user *user;

	while ((user = find_waiting(session->id)))
		event_user_free(user, device_lost);
}

const struct session_part shared_events_part = {
	.obstacle = shared_events_obstacle,
	.needs = shared_events_need,
	.pack = shared_events_pack,
	.check = shared_events_check,
	.unpack = shared_events_unpack,
	.end = shared_events_end,
};
