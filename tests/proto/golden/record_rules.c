/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the messages of a session leave behind. Constant tables; any thread.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "record_rules.h"

#include "messages.h"

static const struct record_rule thing_make = {
	.mark = RECORD_MAKE,
	.kind = RECORD_THING,
	.owner = RECORD_THING,
	.is_sync = true,
	.id_at = 16,
	.id_max = 15,
	.n_uses = 1,
	.uses = {{20, RECORD_THING, false}},
	.n_same = 1,
	.same = {{0, 8}},
};

static const struct record_rule thing_part = {
	.mark = RECORD_MAKE,
	.kind = RECORD_PART,
	.owner = RECORD_THING,
	.is_sync = true,
	.id_at = 20,
	.id_max = 15,
	.n_uses = 1,
	.uses = {{16, RECORD_THING, false}},
};

static const struct record_rule thing_change = {
	.mark = RECORD_CHANGE,
	.kind = RECORD_THING,
	.owner = RECORD_THING,
	.group = 1,
	.id_at = 16,
	.n_keys = 1,
	.keys = {{20, 2}},
	.n_fixed = 1,
	.fixed = {{24, 4}},
};

static const struct record_rule part_change = {
	.mark = RECORD_CHANGE,
	.kind = RECORD_PART,
	.owner = RECORD_THING,
	.group = 2,
	.id_at = 16,
	.n_keys = 1,
	.keys = {{16, 4}},
};

static const struct record_rule thing_add = {
	.mark = RECORD_CHANGE,
	.kind = RECORD_THING,
	.owner = RECORD_THING,
	.id_at = 16,
	.n_uses = 1,
	.uses = {{20, RECORD_THING, false}},
};

static const struct record_rule thing_end = {
	.mark = RECORD_END,
	.kind = RECORD_THING,
	.owner = RECORD_THING,
	.id_at = 16,
};

const struct record_rule *record_rule(uint16_t op)
{
	switch (op) {
	case OP_THING_MAKE:
		return &thing_make;
	case OP_THING_PART:
		return &thing_part;
	case OP_THING_CHANGE:
		return &thing_change;
	case OP_PART_CHANGE:
		return &part_change;
	case OP_THING_ADD:
		return &thing_add;
	case OP_THING_END:
		return &thing_end;
	default:
		return NULL;
	}
}

uint16_t record_end_op(uint8_t kind)
{
	switch (kind) {
	case RECORD_THING:
		return OP_THING_END;
	default:
		return 0;
	}
}

const uint8_t record_order[RECORD_KINDS] = {
	RECORD_DEVICE,
	RECORD_THING,
	RECORD_PART,
};

const char *record_kind_name(uint8_t kind)
{
	switch (kind) {
	case RECORD_DEVICE:
		return "device";
	case RECORD_THING:
		return "thing";
	case RECORD_PART:
		return "part";
	default:
		return "?";
	}
}
