/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_BLOCK_H
#define PTX_BLOCK_H

/*
 * Clusters of blocks, which begin and end together. One that has ended may
 * begin again as another of the same run.
 */

#include "warp.h"

/* What shared memory, and its reserved part, start at a multiple of. */
#define PTX_SHARED_ALIGN 256u

int ptx_cluster_new(struct ptx_run *run, struct ptx_cluster **ret_cluster);
void ptx_cluster_free(struct ptx_cluster *cluster);

/* Starts as number `index' of the grid's clusters. */
void ptx_cluster_begin(struct ptx_cluster *cluster, uint64_t index);

/*
 * A turn for each warp. True when all blocks have ended. If all threads wait
 * for each other, which a device shows by hanging, the run has a fault.
 */
bool ptx_cluster_round(struct ptx_cluster *cluster);

#endif
