/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_SHARE_H
#define CONTEXT_SHARE_H

/*
 * Contexts that have fewer SMs than their process, as the variable
 * CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING allows. Such a context
 * has a NULL stream of its own. Any thread.
 */

#include "client/device/context.h"

/*
 * Gives a context that is not active yet its share of a GPU that is open: what the environment
 * says now, and no more than `asked' SMs. A context that would have all SMs of the process has
 * the process's share. CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY: it cannot have as few as `asked'.
 */
CUresult context_share_begin(struct context *context, uint32_t asked);

/* Its streams have been ended. It has the process's share from then on. */
void context_share_end(struct context *context);

/* Of the context, for messages. */
static inline uint32_t context_share_id(const struct context *context)
{
	return __atomic_load_n(&context->share, __ATOMIC_RELAXED);
}

#endif
