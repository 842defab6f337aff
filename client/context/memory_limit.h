/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_LIMIT_H
#define MEMORY_LIMIT_H

/*
 * CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: how much memory of each GPU this process may
 * use. A list of GPU=SIZE, such as "0=1G,GPU-0123=512MB". GPU is an ordinal among
 * the GPUs that this process sees, a UUID, a unique beginning of a UUID, or a PCI
 * ID. If several entries name a GPU, the smallest applies.
 */

#include "visible.h"

/*
 * Writes the limit of each GPU; UINT64_MAX if no entry names it. Entries that
 * cannot be parsed or that name no GPU are logged; the others apply. `value' NULL:
 * no limits.
 */
void memory_limits_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	uint64_t ret_limits[DEVICES_MAX]);

#endif
