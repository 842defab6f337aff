/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_LIMIT_H
#define MEMORY_LIMIT_H

/*
 * CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: how much memory of each GPU this process may have.
 * A list of GPU=SIZE, as "0=1G,GPU-0123=512MB". A GPU is named by its ordinal, as this process
 * counts those that it sees; by its UUID, or a beginning of it that no other has; or by its
 * PCI id. The least of several entries for a GPU holds.
 */

#include "visible.h"

/*
 * Writes the limit of each of the GPUs, UINT64_MAX where the list has none. An entry that
 * cannot be understood, or names no GPU of these, is reported and the others hold.
 * `value' NULL: no limits.
 */
void memory_limits_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	uint64_t ret_limits[DEVICES_MAX]);

#endif
