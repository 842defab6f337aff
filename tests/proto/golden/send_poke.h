/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEND_POKE_H
#define SEND_POKE_H

/*
 * The messages that the room poke of the client sends: one function for each,
 * which fills it in and puts it into the ring. Any thread. For a message without a
 * reply, the function returns then. Results are set on success only. Arguments that
 * break a rule of the spec are refused here: the server would end the session.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include <cuda.h>

#include "wire.h"

CUresult send_poke(void);
CUresult send_wait(void);
CUresult send_try(uint32_t what, uint32_t *ret_number);
CUresult send_thing_make(uint32_t thing, uint32_t like, uint64_t *ret_value, uint32_t also[2]);
CUresult send_thing_part(uint32_t thing, uint32_t part, const char *name);
CUresult send_thing_change(uint32_t thing, uint32_t slot, uint32_t colour);
CUresult send_part_change(uint32_t part, uint32_t number);
CUresult send_thing_add(uint32_t thing, uint32_t other);
CUresult send_thing_end(uint32_t thing);
CUresult send_memory_make(uint64_t *ret_address);

#endif
