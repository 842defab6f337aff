/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OCCUPANCY_H
#define OCCUPANCY_H

/* How many blocks of a kernel fit on an SM, cached for the last shape. Any thread. */

#include "client/module/library.h"

CUresult occupancy_blocks(struct kernel *kernel, const struct device *device, uint32_t block_size,
	uint32_t shared_bytes, uint32_t *ret_blocks);

/* The program's questions: blocks on an SM, and the number or the size of clusters. */
CUresult occupancy_ask(
	CUfunction function, int block_size, size_t shared_bytes, unsigned flags, int *ret_blocks);
CUresult occupancy_ask_clusters(
	int *value, CUfunction func, const CUlaunchConfig *config, bool largest);

/* Called after a change of an attribute that may affect it. */
void occupancy_forget(struct kernel *kernel);

#endif
