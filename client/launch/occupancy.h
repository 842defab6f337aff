/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OCCUPANCY_H
#define OCCUPANCY_H

/*
 * How many blocks of a kernel fit on an SM, remembered for the shape that was
 * asked for last. Any thread.
 */

#include "client/module/library.h"

CUresult occupancy_blocks(struct kernel *kernel, const struct device *device, uint32_t block_size,
	uint32_t shared_bytes, uint32_t *ret_blocks);

/* After an attribute was set that may change it. */
void occupancy_forget(struct kernel *kernel);

#endif
