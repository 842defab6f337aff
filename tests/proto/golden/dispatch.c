/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The decoders of a client's messages. Worker thread of the session.
 *
 * Invariant: a handler gets only arguments that satisfy every rule of the spec,
 * objects that exist, and memory of its own session.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "dispatch.h"

#include <assert.h>
#include <string.h>

#include "messages.h"
#include "do_thing.h"

static int malformed(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EBADMSG;
}

/* Whether the padding of a tail up to MESSAGE_ALIGN is zero. */
static bool padding_ok(const uint8_t *tail, uint64_t size)
{
	for (uint64_t i = size; i % MESSAGE_ALIGN != 0; i++)
		if (tail[i] != 0)
			return false;
	return true;
}

static bool string_ok(const uint8_t *string, uint32_t size)
{
	return memchr(string, '\0', size) == string + size - 1;
}

static int refused(struct reply *reply, CUresult result)
{
	reply->result = result;
	return 0;
}

static int dispatch_scalars(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_scalars *msg = (const void *)head;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "scalars: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "scalars: reply: no slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "scalars: pad0: not zero");
	if (msg->pad1 != 0)
		return malformed(ret_why, "scalars: pad1: not zero");
	if (msg->pad2 != 0)
		return malformed(ret_why, "scalars: pad2: not zero");
	if (msg->pad3 != 0)
		return malformed(ret_why, "scalars: pad3: not zero");
	if (msg->pad4 != 0)
		return malformed(ret_why, "scalars: pad4: not zero");
	if (msg->medium > 15u)
		return malformed(ret_why, "scalars: medium: max");
	if (msg->flag != 1u && msg->flag != 2u && msg->flag != 4u)
		return malformed(ret_why, "scalars: flag: in");
	if (msg->large < 1u)
		return malformed(ret_why, "scalars: large: min");
	if (msg->large > 0x200000000ull)
		return malformed(ret_why, "scalars: large: max");
	if ((msg->bits & ~(uint32_t)3u) != 0)
		return malformed(ret_why, "scalars: bits: mask");
	if (msg->number < -3)
		return malformed(ret_why, "scalars: number: min");
	if (msg->number > 3)
		return malformed(ret_why, "scalars: number: max");
	for (unsigned i = 0; i < 3; i++)
		if (msg->triple[i] < 1u)
			return malformed(ret_why, "scalars: triple: min");
	reply->result = do_scalars(session, msg);
	return 0;
}

static int dispatch_ask(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_ask *msg = (const void *)head;
	struct reply_ask *body = (void *)reply->body;
	struct thing *thing;
	uint64_t sum = sizeof(*msg);
	uint64_t name_at;
	uint64_t data_at;
	uint64_t pairs_at;
	const uint8_t *name;
	const uint8_t *data;
	const uint8_t *pairs;

	if (head->size < sizeof(*msg))
		return malformed(ret_why, "ask: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "ask: reply: a slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "ask: pad0: not zero");
	if (msg->name_size < 1u)
		return malformed(ret_why, "ask: name: min");
	if (msg->name_size > 127u)
		return malformed(ret_why, "ask: name: max");
	if (msg->data_size < 2u)
		return malformed(ret_why, "ask: data: min");
	if (msg->data_size > 64u)
		return malformed(ret_why, "ask: data: max");
	if (msg->n_pairs > 5u)
		return malformed(ret_why, "ask: pairs: max");
	name_at = sum;
	sum += ALIGN_UP((uint64_t)msg->name_size, MESSAGE_ALIGN);
	data_at = sum;
	sum += ALIGN_UP((uint64_t)msg->data_size, MESSAGE_ALIGN);
	pairs_at = sum;
	sum += ALIGN_UP((uint64_t)msg->n_pairs * (uint64_t)sizeof(struct pair), MESSAGE_ALIGN);
	if (sum != head->size)
		return malformed(ret_why, "ask: size: exact");
	name = (const uint8_t *)head + name_at;
	if (!padding_ok(name, msg->name_size))
		return malformed(ret_why, "ask: name: padding");
	if (!string_ok(name, msg->name_size))
		return malformed(ret_why, "ask: name: one NUL, at its end");
	data = (const uint8_t *)head + data_at;
	if (!padding_ok(data, msg->data_size))
		return malformed(ret_why, "ask: data: padding");
	pairs = (const uint8_t *)head + pairs_at;
	if (!padding_ok(pairs, msg->n_pairs * (uint64_t)sizeof(struct pair)))
		return malformed(ret_why, "ask: pairs: padding");
	thing = session_thing(session, msg->thing);
	if (!thing)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	if (!msg->source || memory_find(session, msg->source, msg->size) != msg->source)
		return refused(reply, CUDA_ERROR_INVALID_VALUE);
	memset(body, 0, sizeof(*body));
	reply->result = do_ask(session, thing, msg, (const char *)name, (const void *)data,
		(const void *)pairs, &body->one, &body->two, body->three, (void *)(body + 1), 7,
		&body->n_found);
	assert(body->n_found <= 7);
	if (reply->result == CUDA_SUCCESS)
		reply->size = (uint32_t)(sizeof(*body) + body->n_found * sizeof(struct pair));
	return 0;
}

static int dispatch_poke(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	if (head->size != sizeof(*head))
		return malformed(ret_why, "poke: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "poke: reply: no slot");
	reply->result = do_poke(session);
	return 0;
}

static int dispatch_wait(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	if (head->size != sizeof(*head))
		return malformed(ret_why, "wait: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "wait: reply: a slot");
	reply->result = do_wait(session);
	return 0;
}

static int dispatch_try(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_try *msg = (const void *)head;
	struct reply_try *body = (void *)reply->body;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "try: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "try: reply: a slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "try: pad0: not zero");
	memset(body, 0, sizeof(*body));
	reply->result = do_try(session, msg->what, &body->number);
	reply->size = sizeof(*body);
	return 0;
}

static int dispatch_thing_make(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_thing_make *msg = (const void *)head;
	struct reply_thing_make *body = (void *)reply->body;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "thing_make: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "thing_make: reply: a slot");
	if (msg->thing > 15u)
		return malformed(ret_why, "thing_make: thing: max");
	if (msg->like > 16u)
		return malformed(ret_why, "thing_make: like: max");
	memset(body, 0, sizeof(*body));
	reply->result = do_thing_make(session, msg->thing, msg->like, &body->value, body->also);
	if (reply->result == CUDA_SUCCESS)
		reply->size = sizeof(*body);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_thing_part(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_thing_part *msg = (const void *)head;
	struct thing *thing;
	uint64_t sum = sizeof(*msg);
	uint64_t name_at;
	const uint8_t *name;

	if (head->size < sizeof(*msg))
		return malformed(ret_why, "thing_part: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "thing_part: reply: a slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "thing_part: pad0: not zero");
	if (msg->part > 15u)
		return malformed(ret_why, "thing_part: part: max");
	if (msg->name_size < 1u)
		return malformed(ret_why, "thing_part: name: min");
	if (msg->name_size > 127u)
		return malformed(ret_why, "thing_part: name: max");
	name_at = sum;
	sum += ALIGN_UP((uint64_t)msg->name_size, MESSAGE_ALIGN);
	if (sum != head->size)
		return malformed(ret_why, "thing_part: size: exact");
	name = (const uint8_t *)head + name_at;
	if (!padding_ok(name, msg->name_size))
		return malformed(ret_why, "thing_part: name: padding");
	if (!string_ok(name, msg->name_size))
		return malformed(ret_why, "thing_part: name: one NUL, at its end");
	thing = session_thing(session, msg->thing);
	if (!thing)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	reply->result = do_thing_part(session, thing, msg->part, (const char *)name);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_thing_change(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_thing_change *msg = (const void *)head;
	struct thing *thing;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "thing_change: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "thing_change: reply: no slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "thing_change: pad0: not zero");
	if (msg->slot > 3u)
		return malformed(ret_why, "thing_change: slot: max");
	thing = session_thing(session, msg->thing);
	if (!thing)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	reply->result = do_thing_change(session, thing, msg->slot, msg->colour);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_part_change(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_part_change *msg = (const void *)head;
	struct part *part;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "part_change: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "part_change: reply: no slot");
	part = session_part(session, msg->part);
	if (!part)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	reply->result = do_part_change(session, part, msg->number);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_thing_add(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_thing_add *msg = (const void *)head;
	struct thing *thing;
	struct thing *other;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "thing_add: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "thing_add: reply: no slot");
	thing = session_thing(session, msg->thing);
	if (!thing)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	other = session_thing(session, msg->other);
	if (!other)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	reply->result = do_thing_add(session, thing, other);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_thing_end(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	const struct msg_thing_end *msg = (const void *)head;
	struct thing *thing;

	if (head->size != sizeof(*msg))
		return malformed(ret_why, "thing_end: size: exact");
	if (head->reply != 0)
		return malformed(ret_why, "thing_end: reply: no slot");
	if (msg->pad0 != 0)
		return malformed(ret_why, "thing_end: pad0: not zero");
	thing = session_thing(session, msg->thing);
	if (!thing)
		return refused(reply, CUDA_ERROR_INVALID_HANDLE);
	reply->result = do_thing_end(session, thing);
	recorded_keep(session, head, reply);
	return 0;
}

static int dispatch_memory_make(struct session *session, const struct message_head *head,
	struct reply *reply, const char **ret_why)
{
	struct reply_memory_make *body = (void *)reply->body;

	if (head->size != sizeof(*head))
		return malformed(ret_why, "memory_make: size: exact");
	if (head->reply < 1 || head->reply > REPLY_SLOTS)
		return malformed(ret_why, "memory_make: reply: a slot");
	memset(body, 0, sizeof(*body));
	reply->result = do_memory_make(session, &body->address);
	if (reply->result == CUDA_SUCCESS)
		reply->size = sizeof(*body);
	return 0;
}

int dispatch_message(struct session *session, const struct message_head *msg, struct reply *reply,
	const char **ret_why)
{
	reply->result = CUDA_SUCCESS;
	reply->size = 0;
	if (msg->reserved != 0)
		return malformed(ret_why, "head: reserved: not zero");
	switch (msg->op) {
	case OP_SCALARS:
		return dispatch_scalars(session, msg, reply, ret_why);
	case OP_ASK:
		return dispatch_ask(session, msg, reply, ret_why);
	case OP_POKE:
		return dispatch_poke(session, msg, reply, ret_why);
	case OP_WAIT:
		return dispatch_wait(session, msg, reply, ret_why);
	case OP_TRY:
		return dispatch_try(session, msg, reply, ret_why);
	case OP_THING_MAKE:
		return dispatch_thing_make(session, msg, reply, ret_why);
	case OP_THING_PART:
		return dispatch_thing_part(session, msg, reply, ret_why);
	case OP_THING_CHANGE:
		return dispatch_thing_change(session, msg, reply, ret_why);
	case OP_PART_CHANGE:
		return dispatch_part_change(session, msg, reply, ret_why);
	case OP_THING_ADD:
		return dispatch_thing_add(session, msg, reply, ret_why);
	case OP_THING_END:
		return dispatch_thing_end(session, msg, reply, ret_why);
	case OP_MEMORY_MAKE:
		return dispatch_memory_make(session, msg, reply, ret_why);
	default:
		return malformed(ret_why, "unknown message");
	}
}
