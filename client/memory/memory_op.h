/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_OP_H
#define MEMORY_OP_H

/*
 * Stream memory operations, in a stream or in a node of a graph. Any thread.
 */

#include "client/util/api.h"
#include "wire.h"

/* What of the program's union counts for its operation; the rest may be anything. */
struct memory_op memory_op_of(const CUstreamBatchMemOpParams *param);

/* What the driver refuses of it at the call. */
CUresult memory_op_check(const struct memory_op *op);

#endif
