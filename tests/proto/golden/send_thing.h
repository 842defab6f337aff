/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEND_THING_H
#define SEND_THING_H

/*
 * The messages that the room thing of the client sends: one function for each,
 * which fills it in and puts it into the ring. Any thread. For a message without a
 * reply, the function returns then. Results are set on success only. Arguments that
 * break a rule of the spec are refused here: the server would end the session.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include <cuda.h>

#include "wire.h"

CUresult send_scalars(uint8_t small, uint16_t medium, uint8_t flag, uint64_t large, uint32_t bits,
	int32_t number, int64_t wide, float single, double double_one, const uint32_t triple[3]);
CUresult send_ask(uint32_t thing, uint64_t source, uint32_t size, const char *name,
	const void *data, uint32_t data_size, const struct pair *pairs, uint32_t n_pairs,
	uint32_t *ret_one, uint64_t *ret_two, int32_t three[4], struct pair *found,
	uint32_t n_found_max, uint32_t *ret_n_found);

#endif
