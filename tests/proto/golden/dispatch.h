/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DISPATCH_H
#define DISPATCH_H

/*
 * A client's message, from bytes to the call of its handler. Worker thread of the
 * session.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include <cuda.h>

#include "wire.h"

struct session;
struct thing;
struct part;

/* A reply, before the worker puts it into the page. */
struct reply {
	uint32_t result; /* CUresult */
	uint32_t size;   /* bytes used of `body'; on failure 0, but of `sync always' */
	_Alignas(8) uint8_t body[REPLY_MAX - sizeof(struct reply_head)];
};

/*
 * Serves one message that lies in private memory, 8-aligned, with `msg->size'
 * bytes readable. 0: `reply' is filled in, also for a message without a reply.
 * -EBADMSG: malformed; `*ret_why' names message, field and rule.
 */
int dispatch_message(struct session *session, const struct message_head *msg, struct reply *reply,
	const char **ret_why);

/* The object of a session with an ID of its client; NULL if there is none. */
struct thing *session_thing(struct session *session, uint32_t id);
struct part *session_part(struct session *session, uint32_t id);

/* After a message that makes, changes or ends an object: server/session/recorded.h. */
void recorded_keep(
	struct session *session, const struct message_head *head, const struct reply *reply);

/*
 * The address that the driver knows, mostly the same one, if all `size' bytes from `address' are
 * memory of this session. 0: they are not.
 */
uint64_t memory_find(struct session *session, uint64_t address, uint64_t size);

#endif
