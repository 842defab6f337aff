/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGES_H
#define MESSAGES_H

/*
 * The layout of messages and replies in shared memory. Tails follow the struct,
 * each padded with zeros to MESSAGE_ALIGN; only the struct has their lengths.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "layout.h"

enum op {
	OP_SCALARS = 0x0101,
	OP_ASK = 0x0102,
	OP_POKE = 0x0201,
	OP_WAIT = 0xfffe,
	OP_TRY = 0x0202,
	OP_THING_MAKE = 0x0301,
	OP_THING_PART = 0x0302,
	OP_THING_CHANGE = 0x0303,
	OP_PART_CHANGE = 0x0304,
	OP_THING_ADD = 0x0305,
	OP_THING_END = 0x0306,
	OP_MEMORY_MAKE = 0x0307,
};

/* scalars: no reply */
struct msg_scalars {
	struct message_head head;
	uint8_t small;
	uint8_t pad0;
	uint16_t medium;
	uint8_t flag;
	uint8_t pad1;
	uint16_t pad2;
	uint64_t large;
	uint32_t bits;
	int32_t number;
	int64_t wide;
	float single;
	uint32_t pad3;
	double double_one;
	uint32_t triple[3];
	uint32_t pad4;
};
_Static_assert(sizeof(struct msg_scalars) == 80, "wire");

/* ask: has a reply */
struct msg_ask {
	struct message_head head;
	uint32_t thing;
	uint32_t pad0;
	uint64_t source;
	uint32_t size;
	uint32_t name_size;
	uint32_t data_size;
	uint32_t n_pairs;
};
_Static_assert(sizeof(struct msg_ask) == 48, "wire");

struct reply_ask {
	uint32_t one;
	uint32_t pad0;
	uint64_t two;
	int32_t three[4];
	uint32_t n_found;
	uint32_t pad1;
};
_Static_assert(sizeof(struct reply_ask) == 40, "wire");

/* poke: no reply */
struct msg_poke {
	struct message_head head;
};
_Static_assert(sizeof(struct msg_poke) == 16, "wire");

/* wait: has a reply */
struct msg_wait {
	struct message_head head;
};
_Static_assert(sizeof(struct msg_wait) == 16, "wire");

/* try: has a reply */
struct msg_try {
	struct message_head head;
	uint32_t what;
	uint32_t pad0;
};
_Static_assert(sizeof(struct msg_try) == 24, "wire");

struct reply_try {
	uint32_t number;
	uint32_t pad0;
};
_Static_assert(sizeof(struct reply_try) == 8, "wire");

/* thing_make: has a reply */
struct msg_thing_make {
	struct message_head head;
	uint32_t thing;
	uint32_t like;
};
_Static_assert(sizeof(struct msg_thing_make) == 24, "wire");

struct reply_thing_make {
	uint64_t value;
	uint32_t also[2];
};
_Static_assert(sizeof(struct reply_thing_make) == 16, "wire");

/* thing_part: has a reply */
struct msg_thing_part {
	struct message_head head;
	uint32_t thing;
	uint32_t part;
	uint32_t name_size;
	uint32_t pad0;
};
_Static_assert(sizeof(struct msg_thing_part) == 32, "wire");

/* thing_change: no reply */
struct msg_thing_change {
	struct message_head head;
	uint32_t thing;
	uint32_t slot;
	uint32_t colour;
	uint32_t pad0;
};
_Static_assert(sizeof(struct msg_thing_change) == 32, "wire");

/* part_change: no reply */
struct msg_part_change {
	struct message_head head;
	uint32_t part;
	uint32_t number;
};
_Static_assert(sizeof(struct msg_part_change) == 24, "wire");

/* thing_add: no reply */
struct msg_thing_add {
	struct message_head head;
	uint32_t thing;
	uint32_t other;
};
_Static_assert(sizeof(struct msg_thing_add) == 24, "wire");

/* thing_end: no reply */
struct msg_thing_end {
	struct message_head head;
	uint32_t thing;
	uint32_t pad0;
};
_Static_assert(sizeof(struct msg_thing_end) == 24, "wire");

/* memory_make: has a reply */
struct msg_memory_make {
	struct message_head head;
};
_Static_assert(sizeof(struct msg_memory_make) == 16, "wire");

struct reply_memory_make {
	uint64_t address;
};
_Static_assert(sizeof(struct reply_memory_make) == 8, "wire");

#endif
