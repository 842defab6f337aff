/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The client's senders of messages. Any thread.
 *
 * Invariant: each message in the ring satisfies every rule of the spec.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "send.h"

#include <string.h>

#include "messages.h"
#include "client/transport/call.h"

/* Size with the NUL; a string that is too long for any message stays too long. */
static uint32_t string_size(const char *string)
{
	return (uint32_t)strnlen(string, MESSAGE_MAX) + 1;
}

CUresult send_scalars(uint8_t small, uint16_t medium, uint8_t flag, uint64_t large, uint32_t bits,
	int32_t number, int64_t wide, float single, double double_one, const uint32_t triple[3])
{
	struct msg_scalars msg = {
		.head.op = OP_SCALARS,
		.small = small,
		.medium = medium,
		.flag = flag,
		.large = large,
		.bits = bits,
		.number = number,
		.wide = wide,
		.single = single,
		.double_one = double_one,
	};

	if (medium > 15u)
		return CUDA_ERROR_INVALID_VALUE;
	if (flag != 1u && flag != 2u && flag != 4u)
		return CUDA_ERROR_INVALID_VALUE;
	if (large < 1u)
		return CUDA_ERROR_INVALID_VALUE;
	if (large > 0x200000000ull)
		return CUDA_ERROR_INVALID_VALUE;
	if ((bits & ~(uint32_t)3u) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (number < -3)
		return CUDA_ERROR_INVALID_VALUE;
	if (number > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < 3; i++)
		if (triple[i] < 1u)
			return CUDA_ERROR_INVALID_VALUE;
	memcpy(msg.triple, triple, sizeof(msg.triple));
	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_ask(uint32_t thing, uint64_t source, uint32_t size, const char *name,
	const void *data, uint32_t data_size, const struct pair *pairs, uint32_t n_pairs,
	uint32_t *ret_one, uint64_t *ret_two, int32_t three[4], struct pair *found,
	uint32_t n_found_max, uint32_t *ret_n_found)
{
	uint32_t name_size = string_size(name);
	struct msg_ask msg = {
		.head.op = OP_ASK,
		.thing = thing,
		.source = source,
		.size = size,
		.name_size = name_size,
		.data_size = data_size,
		.n_pairs = n_pairs,
	};
	const struct ring_part tails[] = {
		{name, name_size},
		{data, data_size},
		{pairs, n_pairs * (uint32_t)sizeof(*pairs)},
	};
	struct reply_ask reply;
	uint32_t tail_size = 0;
	CUresult result;

	if (name_size > 127u)
		return CUDA_ERROR_INVALID_VALUE;
	if (data_size < 2u)
		return CUDA_ERROR_INVALID_VALUE;
	if (data_size > 64u)
		return CUDA_ERROR_INVALID_VALUE;
	if (n_pairs > 5u)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_ask(&msg.head, sizeof(msg), tails, ARRAY_SIZE(tails), &reply, sizeof(reply),
		found, n_found_max * (uint32_t)sizeof(*found), &tail_size);
	if (result != CUDA_SUCCESS)
		return result;
	if (tail_size != (uint64_t)reply.n_found * sizeof(*found))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	*ret_one = reply.one;
	*ret_two = reply.two;
	memcpy(three, reply.three, sizeof(reply.three));
	*ret_n_found = reply.n_found;
	return CUDA_SUCCESS;
}

CUresult send_poke(void)
{
	struct msg_poke msg = {
		.head.op = OP_POKE,
	};

	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_wait(void)
{
	struct msg_wait msg = {
		.head.op = OP_WAIT,
	};

	return call_ask(&msg.head, sizeof(msg), NULL, 0, NULL, 0, NULL, 0, NULL);
}

CUresult send_try(uint32_t what, uint32_t *ret_number)
{
	struct msg_try msg = {
		.head.op = OP_TRY,
		.what = what,
	};
	struct reply_try reply;
	CUresult result;

	memset(&reply, 0xff, sizeof(reply));
	result = call_ask(&msg.head, sizeof(msg), NULL, 0, &reply, sizeof(reply), NULL, 0, NULL);
	*ret_number = reply.number;
	return result;
}

CUresult send_thing_make(uint32_t thing, uint32_t like, uint64_t *ret_value, uint32_t also[2])
{
	struct msg_thing_make msg = {
		.head.op = OP_THING_MAKE,
		.thing = thing,
		.like = like,
	};
	struct reply_thing_make reply;
	CUresult result;

	if (thing > 15u)
		return CUDA_ERROR_INVALID_VALUE;
	if (like > 16u)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_ask(&msg.head, sizeof(msg), NULL, 0, &reply, sizeof(reply), NULL, 0, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_value = reply.value;
	memcpy(also, reply.also, sizeof(reply.also));
	return CUDA_SUCCESS;
}

CUresult send_thing_part(uint32_t thing, uint32_t part, const char *name)
{
	uint32_t name_size = string_size(name);
	struct msg_thing_part msg = {
		.head.op = OP_THING_PART,
		.thing = thing,
		.part = part,
		.name_size = name_size,
	};
	const struct ring_part tails[] = {
		{name, name_size},
	};

	if (part > 15u)
		return CUDA_ERROR_INVALID_VALUE;
	if (name_size > 127u)
		return CUDA_ERROR_INVALID_VALUE;
	return call_ask(&msg.head, sizeof(msg), tails, ARRAY_SIZE(tails), NULL, 0, NULL, 0, NULL);
}

CUresult send_thing_change(uint32_t thing, uint32_t slot, uint32_t colour)
{
	struct msg_thing_change msg = {
		.head.op = OP_THING_CHANGE,
		.thing = thing,
		.slot = slot,
		.colour = colour,
	};

	if (slot > 3u)
		return CUDA_ERROR_INVALID_VALUE;
	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_part_change(uint32_t part, uint32_t number)
{
	struct msg_part_change msg = {
		.head.op = OP_PART_CHANGE,
		.part = part,
		.number = number,
	};

	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_thing_add(uint32_t thing, uint32_t other)
{
	struct msg_thing_add msg = {
		.head.op = OP_THING_ADD,
		.thing = thing,
		.other = other,
	};

	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_thing_end(uint32_t thing)
{
	struct msg_thing_end msg = {
		.head.op = OP_THING_END,
		.thing = thing,
	};

	return call_post(&msg.head, sizeof(msg), NULL, 0);
}

CUresult send_memory_make(uint64_t *ret_address)
{
	struct msg_memory_make msg = {
		.head.op = OP_MEMORY_MAKE,
	};
	struct reply_memory_make reply;
	CUresult result;

	result = call_ask(&msg.head, sizeof(msg), NULL, 0, &reply, sizeof(reply), NULL, 0, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_address = reply.address;
	return CUDA_SUCCESS;
}
