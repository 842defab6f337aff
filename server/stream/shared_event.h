/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_EVENT_H
#define SHARED_EVENT_H

/*
 * Events that clients of this server share, by an unguessable token. An event of a session that
 * shares one is a user of it. The worker of that session.
 */

#include "server/util/token.h"
#include "server/driver/driver.h"

struct session;

struct shared_event {
	struct shared_event *next;
	struct token token;
	uid_t uid; /* of its user: other users may not open it */
	CUevent real;
	uint32_t device;
	struct event_user *users;
	bool had_victim; /* a user has ended after a fault: its work behind the event may be lost */
};

struct event_user {
	struct event_user *next;
	struct shared_event *shared;
	uint32_t session, event; /* IDs */
	bool is_waiting;         /* the session's event is made again later */
	bool is_ended;           /* only a graph uses the session's event */
};

/* Takes `real', if it succeeds. */
CUresult shared_event_make(struct session *session, uint32_t event, uint32_t device, CUevent real,
	struct event_user **ret_user);

CUresult shared_event_open(struct session *session, uint32_t event, const uint64_t token[2],
	struct event_user **ret_user);

/*
 * In a replay: the user that waits for that event. `token' may be NULL. NULL: there is none.
 */
struct event_user *event_user_take(
	const struct session *session, uint32_t event, const uint64_t token[2]);

/* The last one destroys the real event. */
void event_user_free(struct event_user *user, bool device_lost);

#endif
