/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of numbers, and the proof that spec and headers agree. Any thread.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "wire.h"

#include "messages.h"

_Static_assert(sizeof(struct message_head) == 16, "wire");
_Static_assert(sizeof(struct reply_head) == 16, "wire");
_Static_assert(MESSAGE_MAX == 65536, "proto/gen/spec.py");
_Static_assert(REPLY_MAX == 16384, "proto/gen/spec.py");

#ifdef THINGS_MAX
_Static_assert(WIRE_THINGS_MAX == THINGS_MAX, "proto/cuda.spec and include/");
#endif
#ifdef TEXT_MAX
_Static_assert(WIRE_TEXT_MAX == TEXT_MAX, "proto/cuda.spec and include/");
#endif
#ifdef HUGE
_Static_assert(WIRE_HUGE == HUGE, "proto/cuda.spec and include/");
#endif
#ifdef SIDE_LEFT
_Static_assert(WIRE_SIDE_LEFT == SIDE_LEFT, "proto/cuda.spec and include/");
#endif
#ifdef SIDE_RIGHT
_Static_assert(WIRE_SIDE_RIGHT == SIDE_RIGHT, "proto/cuda.spec and include/");
#endif
#ifdef SIDE_ALL
_Static_assert(WIRE_SIDE_ALL == SIDE_ALL, "proto/cuda.spec and include/");
#endif

const char *op_name(uint16_t op)
{
	switch (op) {
	case OP_SCALARS:
		return "scalars";
	case OP_ASK:
		return "ask";
	case OP_POKE:
		return "poke";
	case OP_WAIT:
		return "wait";
	case OP_TRY:
		return "try";
	case OP_THING_MAKE:
		return "thing_make";
	case OP_THING_PART:
		return "thing_part";
	case OP_THING_CHANGE:
		return "thing_change";
	case OP_PART_CHANGE:
		return "part_change";
	case OP_THING_ADD:
		return "thing_add";
	case OP_THING_END:
		return "thing_end";
	case OP_MEMORY_MAKE:
		return "memory_make";
	default:
		return "unknown";
	}
}

bool op_needs_memory(uint16_t op)
{
	switch (op) {
	case OP_POKE:
		return false;
	default:
		return true;
	}
}

static const struct {
	uint32_t value;
	const char *name;
} results[] = {
	{0, "CUDA_SUCCESS"},
	{1, "CUDA_ERROR_INVALID_VALUE"},
	{2, "CUDA_ERROR_OUT_OF_MEMORY"},
	{999, "CUDA_ERROR_UNKNOWN"},
};

const char *cuda_result_name(uint32_t result)
{
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (results[i].value == result)
			return results[i].name;
	return NULL;
}
