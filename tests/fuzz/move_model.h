/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_MODEL_H
#define MOVE_MODEL_H

/*
 * The pack of a session with objects and memory of each kind that can move, for fuzz_move; and the
 * same of a session whose memory has left the GPU. A session is made at the first call, and another
 * one, made from its pack, shows that the pack is right.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/util/pack.h"

/*
 * A copy of the pack, and of the entries of its record, which the caller frees. The record's file
 * is the first descriptor.
 */
uint8_t *move_model_take(bool is_away, struct pack *ret_pack, size_t *ret_size);

uint32_t move_model_n_images(bool is_away);

/* Of the harness's session: session_parts_join(), where it finds the memory that it has open. */
bool move_model_join(void);

#endif
