/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_MODEL_H
#define MOVE_MODEL_H

/*
 * The pack of a session with objects of each kind that can move, for fuzz_move. The session is made
 * at the first call, and another one, made from its pack, shows that the pack is right.
 */

#include <stddef.h>
#include <stdint.h>

#include "server/util/pack.h"

/*
 * A copy of the pack, and of the entries of its record, which the caller frees. The record's file
 * is the first descriptor. The memories are others, of the same sizes.
 */
uint8_t *move_model_take(struct pack *ret_pack, size_t *ret_size);

uint32_t move_model_n_images(void);

#endif
