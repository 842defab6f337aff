/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DO_THING_H
#define DO_THING_H

/*
 * The handlers of messages in the room thing of the server, written by hand. Tails lie
 * in the private copy of the message and are valid as long as it is. Results reach
 * the client only with CUDA_SUCCESS.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "dispatch.h"

/* Of messages.h. */
struct msg_scalars;
struct msg_ask;

CUresult do_scalars(struct session *session, const struct msg_scalars *msg);
CUresult do_ask(struct session *session, struct thing *thing, const struct msg_ask *msg,
	const char *name, const void *data, const struct pair *pairs, uint32_t *ret_one,
	uint64_t *ret_two, int32_t three[4], struct pair *found, uint32_t n_found_max,
	uint32_t *ret_n_found);
CUresult do_poke(struct session *session);
CUresult do_wait(struct session *session);
CUresult do_try(struct session *session, uint32_t what, uint32_t *ret_number);
CUresult do_thing_make(struct session *session, uint32_t thing, uint32_t like, uint64_t *ret_value,
	uint32_t also[2]);
CUresult do_thing_part(
	struct session *session, struct thing *thing, uint32_t part, const char *name);
CUresult do_thing_change(
	struct session *session, struct thing *thing, uint32_t slot, uint32_t colour);
CUresult do_part_change(struct session *session, struct part *part, uint32_t number);
CUresult do_thing_add(struct session *session, struct thing *thing, struct thing *other);
CUresult do_thing_end(struct session *session, struct thing *thing);
CUresult do_memory_make(struct session *session, uint64_t *ret_address);

#endif
