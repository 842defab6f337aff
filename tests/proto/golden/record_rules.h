/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_RULES_H
#define RECORD_RULES_H

/*
 * What the messages of a session leave behind, for its record.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "wire.h"

enum record_mark {
	RECORD_MAKE = 1,
	RECORD_CHANGE,
	RECORD_END,
};

enum record_kind {
	RECORD_DEVICE,
	RECORD_THING,
	RECORD_PART,
	RECORD_KINDS,
};

#define RECORD_USES_MAX 4
#define RECORD_KEYS_MAX 3
#define RECORD_FIXED_MAX 4
#define RECORD_SAME_MAX 6

/* What a message leaves behind. Offsets are from the head of the message, or in its reply. */
struct record_rule {
	uint8_t mark;
	uint8_t kind;  /* of the object that it makes, changes or ends */
	uint8_t owner; /* the same, or the kind of the object of which that is a part */
	uint8_t group; /* of changes: one with the same key replaces it; 0: every change counts */
	bool is_sync;
	uint16_t id_at; /* the ID of the object */
	uint32_t id_max;
	uint8_t n_uses, n_keys, n_fixed, n_same;
	struct {
		uint16_t at;
		uint8_t kind;
		bool is_fixed;
	} uses[RECORD_USES_MAX]; /* other objects, by ID */
	struct {
		uint16_t at;
		uint8_t bits;
	} keys[RECORD_KEYS_MAX];
	struct record_span {
		uint16_t at, size;
	} fixed[RECORD_FIXED_MAX]; /* what a change of the same key does not change, by offset */
	struct record_span same[RECORD_SAME_MAX]; /* answers that the client keeps */
};

/* NULL: the message leaves nothing behind that is recorded. */
const struct record_rule *record_rule(uint16_t op);

/* The message that ends an object of that kind, whose only field is the ID; 0: there is none. */
uint16_t record_end_op(uint8_t kind);

/* All kinds, each behind the kinds of the objects that it uses. */
extern const uint8_t record_order[RECORD_KINDS];

/* "stream", for log lines. */
const char *record_kind_name(uint8_t kind);

#endif
