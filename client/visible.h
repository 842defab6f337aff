/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VISIBLE_H
#define VISIBLE_H

/*
 * CUDA_VISIBLE_DEVICES: a list of ordinals, UUIDs or beginnings of UUIDs. What
 * comes after the first entry that names no GPU is not seen.
 */

#include <stdint.h>

#include "layout.h"

/*
 * Writes the numbers of the chosen GPUs of `n_gpus' in the order of the list
 * and returns how many. `value' NULL: all of them.
 */
unsigned visible_parse(const char *value, const uint8_t (*uuids)[16], unsigned n_gpus,
	unsigned ret_chosen[DEVICES_MAX]);

#endif
