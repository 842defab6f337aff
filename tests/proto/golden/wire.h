/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_H
#define WIRE_H

/*
 * The limits and structs of messages, and names of numbers.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "layout.h"

#define WIRE_THINGS_MAX 16u
#define WIRE_TEXT_MAX 127u
#define WIRE_HUGE 0x200000000ull
#define WIRE_SIDE_LEFT 1u
#define WIRE_SIDE_RIGHT 2u
#define WIRE_SIDE_ALL 3u

struct pair {
	uint16_t left;
	uint16_t right;
};
_Static_assert(sizeof(struct pair) == 4, "wire");

/* The name of a message, for log lines; never NULL. */
const char *op_name(uint16_t op);

/* Whether the message can use device memory of its client. */
bool op_needs_memory(uint16_t op);

/* The name of a CUresult in cuda.h; NULL if cuda.h does not have it. */
const char *cuda_result_name(uint32_t result);

#endif
