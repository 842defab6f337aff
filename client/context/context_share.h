/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_SHARE_H
#define CONTEXT_SHARE_H

/*
 * Contexts with fewer SMs than their process, if
 * CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING allows them. Such a
 * context has its own NULL stream. Any thread.
 */

#include <stdatomic.h>

#include "context.h"

/*
 * Gives an inactive context its share of an open GPU: what the environment says
 * now, but at most `asked' SMs. A context that would have all SMs of the process
 * uses the process's share. CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY: the context
 * cannot have as few SMs as `asked'.
 */
CUresult context_share_begin(struct context *context, uint32_t asked);

/* Called after its streams have ended. The context then uses the process's share. */
void context_share_end(struct context *context);

/* The number of the context's share, for messages. */
static inline uint32_t context_share_id(const struct context *context)
{
	return atomic_load_explicit(&context->share, memory_order_relaxed);
}

#endif
