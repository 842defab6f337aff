/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_BLOCK_H
#define PTX_BLOCK_H

/*
 * Clusters of blocks, which begin and end together. A cluster that has ended may
 * begin again as another one of the same run.
 */

#include "warp.h"

/* The alignment of shared memory, and of its reserved part. */
#define PTX_SHARED_ALIGN 256u

int ptx_cluster_new(struct ptx_run *run, struct ptx_cluster **ret_cluster);
void ptx_cluster_free(struct ptx_cluster *cluster);

/* Starts as number `index' of the grid's clusters. */
void ptx_cluster_begin(struct ptx_cluster *cluster, uint64_t index);

/*
 * Gives each warp a turn. True when all blocks have ended. If all threads wait for
 * each other, the run gets a fault; a device would hang.
 */
bool ptx_cluster_round(struct ptx_cluster *cluster);

#endif
