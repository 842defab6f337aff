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

/* Whether all `size' bytes from `address' are memory of this session. */
bool memory_check(struct session *session, uint64_t address, uint64_t size);

/*
 * The handlers, written by hand. Tails lie in the private copy of the message and
 * are valid as long as it is. Results reach the client only with CUDA_SUCCESS.
 */
CUresult do_scalars(struct session *session, const struct msg_scalars *msg);
CUresult do_ask(struct session *session, struct thing *thing, const struct msg_ask *msg,
	const char *name, const void *data, const struct pair *pairs, uint32_t *ret_one,
	uint64_t *ret_two, int32_t three[4], struct pair *found, uint32_t n_found_max,
	uint32_t *ret_n_found);
CUresult do_poke(struct session *session);
CUresult do_wait(struct session *session);
CUresult do_try(struct session *session, uint32_t what, uint32_t *ret_number);
CUresult do_thing_make(struct session *session, uint32_t thing, uint32_t like, uint64_t *ret_value,
	uint32_t also[2]);
CUresult do_thing_part(
	struct session *session, struct thing *thing, uint32_t part, const char *name);
CUresult do_thing_change(
	struct session *session, struct thing *thing, uint32_t slot, uint32_t colour);
CUresult do_part_change(struct session *session, struct part *part, uint32_t number);
CUresult do_thing_add(struct session *session, struct thing *thing, struct thing *other);
CUresult do_thing_end(struct session *session, struct thing *thing);
CUresult do_memory_make(struct session *session, uint64_t *ret_address);

#endif
