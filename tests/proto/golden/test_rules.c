/* SPDX-License-Identifier: Apache-2.0 */

/*
 * For each message: a valid one, one that breaks each rule, a round trip.
 * For test_wire.c.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include <string.h>

#include "messages.h"
#include "tests/proto/rules.h"
#include "do_thing.h"
#include "send.h"

struct thing *session_thing(struct session *session, uint32_t id)
{
	(void)session;
	return id == 0xdead ? NULL : object(id);
}

struct part *session_part(struct session *session, uint32_t id)
{
	(void)session;
	return id == 0xdead ? NULL : object(id);
}

uint64_t memory_find(struct session *session, uint64_t address, uint64_t size)
{
	(void)session;
	if (!rules_strict)
		return address;
	switch (address) {
	case 0x200000112000ull:
		return size == 0x1130u ? address : 0;
	default:
		return 0;
	}
}

static uint32_t make_scalars(void *buffer)
{
	struct msg_scalars *msg = buffer;

	memset(buffer, 0, 80);
	msg->head.size = 80;
	msg->head.op = OP_SCALARS;
	msg->head.reply = 0;
	msg->small = 16u;
	msg->medium = 15u;
	msg->flag = 4u;
	msg->large = 0x1040u;
	msg->bits = 0u;
	msg->number = 3;
	msg->wide = 4626744929685616;
	msg->single = 128.5f;
	msg->double_one = 144.5f;
	msg->triple[0] = 0x10a0u;
	msg->triple[1] = 0x10a1u;
	msg->triple[2] = 0x10a2u;
	return 80;
}

CUresult do_scalars(struct session *session, const struct msg_scalars *msg)
{
	rules_done(OP_SCALARS, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(msg->small == 16u);
	EXPECT(msg->medium == 15u);
	EXPECT(msg->flag == 4u);
	EXPECT(msg->large == 0x1040u);
	EXPECT(msg->bits == 0u);
	EXPECT(msg->number == 3);
	EXPECT(msg->wide == 4626744929685616);
	EXPECT(msg->single == 128.5f);
	EXPECT(msg->double_one == 144.5f);
	EXPECT(msg->triple[0] == 0x10a0u);
	EXPECT(msg->triple[1] == 0x10a1u);
	EXPECT(msg->triple[2] == 0x10a2u);
	return CUDA_SUCCESS;
}

static CUresult try_scalars(unsigned attempt)
{
	uint8_t small = 16u;
	uint16_t medium = 15u;
	uint8_t flag = 4u;
	uint64_t large = 0x1040u;
	uint32_t bits = 0u;
	int32_t number = 3;
	int64_t wide = 4626744929685616;
	float single = 128.5f;
	double double_one = 144.5f;
	uint32_t triple[3] = {0x10a0u, 0x10a1u, 0x10a2u};
	CUresult result;

	if (attempt == 1)
		medium = 16u;
	if (attempt == 2)
		medium = 15u;
	if (attempt == 3)
		flag = 0u;
	if (attempt == 4)
		flag = 1u;
	if (attempt == 5)
		flag = 2u;
	if (attempt == 6)
		flag = 4u;
	if (attempt == 7)
		large = 0u;
	if (attempt == 8)
		large = 0x200000001ull;
	if (attempt == 9)
		large = 1u;
	if (attempt == 10)
		large = 0x200000000ull;
	if (attempt == 11)
		bits = 4u;
	if (attempt == 12)
		bits = 3u;
	if (attempt == 13)
		number = -4;
	if (attempt == 14)
		number = 4;
	if (attempt == 15)
		number = -3;
	if (attempt == 16)
		number = 3;
	if (attempt == 17)
		triple[2] = 0u;
	if (attempt == 18)
		triple[2] = 1u;
	result = send_scalars(
		small, medium, flag, large, bits, number, wide, single, double_one, triple);
	return result;
}

static const struct attempt attempts_scalars[] = {
	{"medium: beyond max", true},
	{"medium: at max", false},
	{"flag: beyond in", true},
	{"flag: at in", false},
	{"flag: at in", false},
	{"flag: at in", false},
	{"large: beyond min", true},
	{"large: beyond max", true},
	{"large: at min", false},
	{"large: at max", false},
	{"bits: beyond mask", true},
	{"bits: at mask", false},
	{"number: beyond min", true},
	{"number: beyond max", true},
	{"number: at min", false},
	{"number: at max", false},
	{"triple: beyond min", true},
	{"triple: at min", false},
};

static const struct rule rules_scalars[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"scalars: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
	{"scalars: pad0: not zero", CUDA_SUCCESS, 17, 1, 0x1ull},
	{"scalars: pad1: not zero", CUDA_SUCCESS, 21, 1, 0x1ull},
	{"scalars: pad2: not zero", CUDA_SUCCESS, 22, 2, 0x1ull},
	{"scalars: pad3: not zero", CUDA_SUCCESS, 52, 4, 0x1ull},
	{"scalars: pad4: not zero", CUDA_SUCCESS, 76, 4, 0x1ull},
	{"scalars: medium: max", CUDA_SUCCESS, 18, 2, 0x10ull},
	{"scalars: flag: in", CUDA_SUCCESS, 20, 1, 0x0ull},
	{"scalars: large: min", CUDA_SUCCESS, 24, 8, 0x0ull},
	{"scalars: large: max", CUDA_SUCCESS, 24, 8, 0x200000001ull},
	{"scalars: bits: mask", CUDA_SUCCESS, 32, 4, 0x4ull},
	{"scalars: number: min", CUDA_SUCCESS, 36, 4, 0xfffffffcull},
	{"scalars: number: max", CUDA_SUCCESS, 36, 4, 0x4ull},
	{"scalars: triple: min", CUDA_SUCCESS, 72, 4, 0x0ull},
};

static uint32_t make_ask(void *buffer)
{
	struct msg_ask *msg = buffer;

	memset(buffer, 0, 96);
	msg->head.size = 96;
	msg->head.op = OP_ASK;
	msg->head.reply = 1;
	msg->thing = 0x1110u;
	msg->source = 0x200000112000ull;
	msg->size = 0x1130u;
	msg->name_size = 13;
	memcpy((uint8_t *)buffer + 48, "namenamename", 13);
	msg->data_size = 13;
	fill((uint8_t *)buffer + 64, 13, 80);
	msg->n_pairs = 3;
	fill((uint8_t *)buffer + 80, 12, 96);
	return 96;
}

CUresult do_ask(struct session *session, struct thing *thing, const struct msg_ask *msg,
	const char *name, const void *data, const struct pair *pairs, uint32_t *ret_one,
	uint64_t *ret_two, int32_t three[4], struct pair *found, uint32_t n_found_max,
	uint32_t *ret_n_found)
{
	rules_done(OP_ASK, session);
	touch(name, strlen(name) + 1);
	touch(data, msg->data_size);
	touch(pairs, msg->n_pairs * 4ull);
	*ret_one = 0x1170u;
	*ret_two = 0x11800000001180ull;
	three[0] = 4496;
	three[1] = 4497;
	three[2] = 4498;
	three[3] = 4499;
	EXPECT(n_found_max == 7);
	fill(found, 12, 160);
	*ret_n_found = 3;
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == object(4368));
	EXPECT(msg->source == 0x200000112000ull);
	EXPECT(msg->size == 0x1130u);
	EXPECT(!strcmp(name, "namenamename"));
	EXPECT(msg->data_size == 13);
	EXPECT(is_filled(data, 13, 80));
	EXPECT(msg->n_pairs == 3);
	EXPECT(is_filled(pairs, 12, 96));
	return CUDA_SUCCESS;
}

static CUresult try_ask(unsigned attempt)
{
	uint32_t thing = 0x1110u;
	uint64_t source = 0x200000112000ull;
	uint32_t size = 0x1130u;
	const char *name = "namenamename";
	uint64_t data_bytes[2];
	const void *data = attempt ? long_bytes() : data_bytes;
	uint32_t data_size = 13;
	uint64_t pairs_bytes[2];
	const void *pairs = attempt ? long_bytes() : pairs_bytes;
	uint32_t n_pairs = 3;
	uint32_t one = 0;
	uint64_t two = 0;
	int32_t three[4] = {0};
	struct pair found[7];
	uint32_t n_found = 0;
	CUresult result;

	fill(data_bytes, 13, 80);
	fill(pairs_bytes, 12, 96);
	if (attempt == 1)
		name = long_string(127);
	if (attempt == 2)
		name = long_string(128);
	if (attempt == 3)
		name = long_string(1);
	if (attempt == 4)
		data_size = 64;
	if (attempt == 5)
		data_size = 65;
	if (attempt == 6)
		data_size = 2;
	if (attempt == 7)
		data_size = 1;
	if (attempt == 8)
		n_pairs = 5;
	if (attempt == 9)
		n_pairs = 6;
	if (attempt == 10)
		n_pairs = 0;
	result = send_ask(thing, source, size, name, data, data_size, pairs, n_pairs, &one, &two,
		three, found, 7, &n_found);
	if (attempt || result != CUDA_SUCCESS)
		return result;
	EXPECT(one == 0x1170u);
	EXPECT(two == 0x11800000001180ull);
	EXPECT(three[0] == 4496);
	EXPECT(three[1] == 4497);
	EXPECT(three[2] == 4498);
	EXPECT(three[3] == 4499);
	EXPECT(n_found == 3);
	EXPECT(is_filled(found, 12, 160));
	return result;
}

static const struct attempt attempts_ask[] = {
	{"name: at max", false},
	{"name: beyond max", true},
	{"name: at min", false},
	{"data: at max", false},
	{"data: beyond max", true},
	{"data: at min", false},
	{"data: beyond min", true},
	{"pairs: at max", false},
	{"pairs: beyond max", true},
	{"pairs: at min", false},
};

static const struct rule rules_ask[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"ask: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"ask: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
	{"ask: pad0: not zero", CUDA_SUCCESS, 20, 4, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
	{NULL, CUDA_ERROR_INVALID_VALUE, 24, 8, 0xbad000ull},
	{"ask: name: min", CUDA_SUCCESS, 36, 4, 0x0ull},
	{"ask: name: max", CUDA_SUCCESS, 36, 4, 0x80ull},
	{"ask: name: max", CUDA_SUCCESS, 36, 4, 0xffffffffull},
	{"ask: name: padding", CUDA_SUCCESS, 63, 1, 0x1ull},
	{"ask: name: one NUL, at its end", CUDA_SUCCESS, 48, 1, 0x0ull},
	{"ask: name: one NUL, at its end", CUDA_SUCCESS, 60, 1, 0x78ull},
	{"ask: data: min", CUDA_SUCCESS, 40, 4, 0x1ull},
	{"ask: data: max", CUDA_SUCCESS, 40, 4, 0x41ull},
	{"ask: data: max", CUDA_SUCCESS, 40, 4, 0xffffffffull},
	{"ask: data: padding", CUDA_SUCCESS, 79, 1, 0x1ull},
	{"ask: pairs: max", CUDA_SUCCESS, 44, 4, 0x6ull},
	{"ask: pairs: max", CUDA_SUCCESS, 44, 4, 0xffffffffull},
	{"ask: pairs: padding", CUDA_SUCCESS, 95, 1, 0x1ull},
};

static uint32_t make_poke(void *buffer)
{
	struct msg_poke *msg = buffer;

	memset(buffer, 0, 16);
	msg->head.size = 16;
	msg->head.op = OP_POKE;
	msg->head.reply = 0;
	return 16;
}

CUresult do_poke(struct session *session)
{
	rules_done(OP_POKE, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	return CUDA_SUCCESS;
}

static CUresult try_poke(unsigned attempt)
{
	CUresult result;

	(void)attempt;
	result = send_poke();
	return result;
}

static const struct rule rules_poke[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"poke: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
};

static uint32_t make_wait(void *buffer)
{
	struct msg_wait *msg = buffer;

	memset(buffer, 0, 16);
	msg->head.size = 16;
	msg->head.op = OP_WAIT;
	msg->head.reply = 1;
	return 16;
}

CUresult do_wait(struct session *session)
{
	rules_done(OP_WAIT, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	return CUDA_SUCCESS;
}

static CUresult try_wait(unsigned attempt)
{
	CUresult result;

	(void)attempt;
	result = send_wait();
	return result;
}

static const struct rule rules_wait[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"wait: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"wait: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
};

static uint32_t make_try(void *buffer)
{
	struct msg_try *msg = buffer;

	memset(buffer, 0, 24);
	msg->head.size = 24;
	msg->head.op = OP_TRY;
	msg->head.reply = 1;
	msg->what = 0x1410u;
	return 24;
}

CUresult do_try(struct session *session, uint32_t what, uint32_t *ret_number)
{
	rules_done(OP_TRY, session);
	*ret_number = 0x1420u;
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(what == 0x1410u);
	return CUDA_SUCCESS;
}

static CUresult try_try(unsigned attempt)
{
	uint32_t what = 0x1410u;
	uint32_t number = 0;
	CUresult result;

	result = send_try(what, &number);
	if (attempt || result != CUDA_SUCCESS)
		return result;
	EXPECT(number == 0x1420u);
	return result;
}

static const struct rule rules_try[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"try: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"try: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
	{"try: pad0: not zero", CUDA_SUCCESS, 20, 4, 0x1ull},
};

static uint32_t make_thing_make(void *buffer)
{
	struct msg_thing_make *msg = buffer;

	memset(buffer, 0, 24);
	msg->head.size = 24;
	msg->head.op = OP_THING_MAKE;
	msg->head.reply = 1;
	msg->thing = 15u;
	msg->like = 16u;
	return 24;
}

CUresult do_thing_make(struct session *session, uint32_t thing, uint32_t like, uint64_t *ret_value,
	uint32_t also[2])
{
	rules_done(OP_THING_MAKE, session);
	*ret_value = 0x15300000001530ull;
	also[0] = 0x1540u;
	also[1] = 0x1541u;
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == 15u);
	EXPECT(like == 16u);
	return CUDA_SUCCESS;
}

static CUresult try_thing_make(unsigned attempt)
{
	uint32_t thing = 15u;
	uint32_t like = 16u;
	uint64_t value = 0;
	uint32_t also[2] = {0};
	CUresult result;

	if (attempt == 1)
		thing = 16u;
	if (attempt == 2)
		thing = 15u;
	if (attempt == 3)
		like = 17u;
	if (attempt == 4)
		like = 16u;
	result = send_thing_make(thing, like, &value, also);
	if (attempt || result != CUDA_SUCCESS)
		return result;
	EXPECT(value == 0x15300000001530ull);
	EXPECT(also[0] == 0x1540u);
	EXPECT(also[1] == 0x1541u);
	return result;
}

static const struct attempt attempts_thing_make[] = {
	{"thing: beyond max", true},
	{"thing: at max", false},
	{"like: beyond max", true},
	{"like: at max", false},
};

static const struct rule rules_thing_make[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"thing_make: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"thing_make: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
	{"thing_make: thing: max", CUDA_SUCCESS, 16, 4, 0x10ull},
	{"thing_make: like: max", CUDA_SUCCESS, 20, 4, 0x11ull},
};

static uint32_t make_thing_part(void *buffer)
{
	struct msg_thing_part *msg = buffer;

	memset(buffer, 0, 48);
	msg->head.size = 48;
	msg->head.op = OP_THING_PART;
	msg->head.reply = 1;
	msg->thing = 0x1610u;
	msg->part = 15u;
	msg->name_size = 13;
	memcpy((uint8_t *)buffer + 32, "namenamename", 13);
	return 48;
}

CUresult do_thing_part(
	struct session *session, struct thing *thing, uint32_t part, const char *name)
{
	rules_done(OP_THING_PART, session);
	touch(name, strlen(name) + 1);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == object(5648));
	EXPECT(part == 15u);
	EXPECT(!strcmp(name, "namenamename"));
	return CUDA_SUCCESS;
}

static CUresult try_thing_part(unsigned attempt)
{
	uint32_t thing = 0x1610u;
	uint32_t part = 15u;
	const char *name = "namenamename";
	CUresult result;

	if (attempt == 1)
		part = 16u;
	if (attempt == 2)
		part = 15u;
	if (attempt == 3)
		name = long_string(127);
	if (attempt == 4)
		name = long_string(128);
	if (attempt == 5)
		name = long_string(1);
	result = send_thing_part(thing, part, name);
	return result;
}

static const struct attempt attempts_thing_part[] = {
	{"part: beyond max", true},
	{"part: at max", false},
	{"name: at max", false},
	{"name: beyond max", true},
	{"name: at min", false},
};

static const struct rule rules_thing_part[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"thing_part: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"thing_part: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
	{"thing_part: pad0: not zero", CUDA_SUCCESS, 28, 4, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
	{"thing_part: part: max", CUDA_SUCCESS, 20, 4, 0x10ull},
	{"thing_part: name: min", CUDA_SUCCESS, 24, 4, 0x0ull},
	{"thing_part: name: max", CUDA_SUCCESS, 24, 4, 0x80ull},
	{"thing_part: name: max", CUDA_SUCCESS, 24, 4, 0xffffffffull},
	{"thing_part: name: padding", CUDA_SUCCESS, 47, 1, 0x1ull},
	{"thing_part: name: one NUL, at its end", CUDA_SUCCESS, 32, 1, 0x0ull},
	{"thing_part: name: one NUL, at its end", CUDA_SUCCESS, 44, 1, 0x78ull},
};

static uint32_t make_thing_change(void *buffer)
{
	struct msg_thing_change *msg = buffer;

	memset(buffer, 0, 32);
	msg->head.size = 32;
	msg->head.op = OP_THING_CHANGE;
	msg->head.reply = 0;
	msg->thing = 0x1710u;
	msg->slot = 3u;
	msg->colour = 0x1730u;
	return 32;
}

CUresult do_thing_change(
	struct session *session, struct thing *thing, uint32_t slot, uint32_t colour)
{
	rules_done(OP_THING_CHANGE, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == object(5904));
	EXPECT(slot == 3u);
	EXPECT(colour == 0x1730u);
	return CUDA_SUCCESS;
}

static CUresult try_thing_change(unsigned attempt)
{
	uint32_t thing = 0x1710u;
	uint32_t slot = 3u;
	uint32_t colour = 0x1730u;
	CUresult result;

	if (attempt == 1)
		slot = 4u;
	if (attempt == 2)
		slot = 3u;
	result = send_thing_change(thing, slot, colour);
	return result;
}

static const struct attempt attempts_thing_change[] = {
	{"slot: beyond max", true},
	{"slot: at max", false},
};

static const struct rule rules_thing_change[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"thing_change: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
	{"thing_change: pad0: not zero", CUDA_SUCCESS, 28, 4, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
	{"thing_change: slot: max", CUDA_SUCCESS, 20, 4, 0x4ull},
};

static uint32_t make_part_change(void *buffer)
{
	struct msg_part_change *msg = buffer;

	memset(buffer, 0, 24);
	msg->head.size = 24;
	msg->head.op = OP_PART_CHANGE;
	msg->head.reply = 0;
	msg->part = 0x1810u;
	msg->number = 0x1820u;
	return 24;
}

CUresult do_part_change(struct session *session, struct part *part, uint32_t number)
{
	rules_done(OP_PART_CHANGE, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(part == object(6160));
	EXPECT(number == 0x1820u);
	return CUDA_SUCCESS;
}

static CUresult try_part_change(unsigned attempt)
{
	uint32_t part = 0x1810u;
	uint32_t number = 0x1820u;
	CUresult result;

	(void)attempt;
	result = send_part_change(part, number);
	return result;
}

static const struct rule rules_part_change[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"part_change: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
};

static uint32_t make_thing_add(void *buffer)
{
	struct msg_thing_add *msg = buffer;

	memset(buffer, 0, 24);
	msg->head.size = 24;
	msg->head.op = OP_THING_ADD;
	msg->head.reply = 0;
	msg->thing = 0x1910u;
	msg->other = 0x1920u;
	return 24;
}

CUresult do_thing_add(struct session *session, struct thing *thing, struct thing *other)
{
	rules_done(OP_THING_ADD, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == object(6416));
	EXPECT(other == object(6432));
	return CUDA_SUCCESS;
}

static CUresult try_thing_add(unsigned attempt)
{
	uint32_t thing = 0x1910u;
	uint32_t other = 0x1920u;
	CUresult result;

	(void)attempt;
	result = send_thing_add(thing, other);
	return result;
}

static const struct rule rules_thing_add[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"thing_add: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 20, 4, 0xdeadull},
};

static uint32_t make_thing_end(void *buffer)
{
	struct msg_thing_end *msg = buffer;

	memset(buffer, 0, 24);
	msg->head.size = 24;
	msg->head.op = OP_THING_END;
	msg->head.reply = 0;
	msg->thing = 0x1a10u;
	return 24;
}

CUresult do_thing_end(struct session *session, struct thing *thing)
{
	rules_done(OP_THING_END, session);
	if (!rules_strict)
		return CUDA_SUCCESS;
	EXPECT(thing == object(6672));
	return CUDA_SUCCESS;
}

static CUresult try_thing_end(unsigned attempt)
{
	uint32_t thing = 0x1a10u;
	CUresult result;

	(void)attempt;
	result = send_thing_end(thing);
	return result;
}

static const struct rule rules_thing_end[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"thing_end: reply: no slot", CUDA_SUCCESS, 6, 2, 0x1ull},
	{"thing_end: pad0: not zero", CUDA_SUCCESS, 20, 4, 0x1ull},
	{NULL, CUDA_ERROR_INVALID_HANDLE, 16, 4, 0xdeadull},
};

static uint32_t make_memory_make(void *buffer)
{
	struct msg_memory_make *msg = buffer;

	memset(buffer, 0, 16);
	msg->head.size = 16;
	msg->head.op = OP_MEMORY_MAKE;
	msg->head.reply = 1;
	return 16;
}

CUresult do_memory_make(struct session *session, uint64_t *ret_address)
{
	rules_done(OP_MEMORY_MAKE, session);
	*ret_address = 0x1b100000001b10ull;
	if (!rules_strict)
		return CUDA_SUCCESS;
	return CUDA_SUCCESS;
}

static CUresult try_memory_make(unsigned attempt)
{
	uint64_t address = 0;
	CUresult result;

	result = send_memory_make(&address);
	if (attempt || result != CUDA_SUCCESS)
		return result;
	EXPECT(address == 0x1b100000001b10ull);
	return result;
}

static const struct rule rules_memory_make[] = {
	{"head: reserved: not zero", CUDA_SUCCESS, 12, 4, 0x1ull},
	{"memory_make: reply: a slot", CUDA_SUCCESS, 6, 2, 0x0ull},
	{"memory_make: reply: a slot", CUDA_SUCCESS, 6, 2, 0x41ull},
};

const struct rule_case rule_cases[] = {
	{"scalars", make_scalars, try_scalars, rules_scalars, ARRAY_SIZE(rules_scalars),
		attempts_scalars, ARRAY_SIZE(attempts_scalars)},
	{"ask", make_ask, try_ask, rules_ask, ARRAY_SIZE(rules_ask), attempts_ask,
		ARRAY_SIZE(attempts_ask)},
	{"poke", make_poke, try_poke, rules_poke, ARRAY_SIZE(rules_poke), NULL, 0},
	{"wait", make_wait, try_wait, rules_wait, ARRAY_SIZE(rules_wait), NULL, 0},
	{"try", make_try, try_try, rules_try, ARRAY_SIZE(rules_try), NULL, 0},
	{"thing_make", make_thing_make, try_thing_make, rules_thing_make,
		ARRAY_SIZE(rules_thing_make), attempts_thing_make, ARRAY_SIZE(attempts_thing_make)},
	{"thing_part", make_thing_part, try_thing_part, rules_thing_part,
		ARRAY_SIZE(rules_thing_part), attempts_thing_part, ARRAY_SIZE(attempts_thing_part)},
	{"thing_change", make_thing_change, try_thing_change, rules_thing_change,
		ARRAY_SIZE(rules_thing_change), attempts_thing_change,
		ARRAY_SIZE(attempts_thing_change)},
	{"part_change", make_part_change, try_part_change, rules_part_change,
		ARRAY_SIZE(rules_part_change), NULL, 0},
	{"thing_add", make_thing_add, try_thing_add, rules_thing_add, ARRAY_SIZE(rules_thing_add),
		NULL, 0},
	{"thing_end", make_thing_end, try_thing_end, rules_thing_end, ARRAY_SIZE(rules_thing_end),
		NULL, 0},
	{"memory_make", make_memory_make, try_memory_make, rules_memory_make,
		ARRAY_SIZE(rules_memory_make), NULL, 0},
};

const unsigned n_rule_cases = ARRAY_SIZE(rule_cases);
