/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_OP_H
#define MEMORY_OP_H

/* Stream memory operations, on a stream or in a graph node. Any thread. */

#include "wire.h"
#include "client/util/api.h"

/*
 * The fields of the program's union that its operation uses; the other fields may
 * have any value.
 */
struct memory_op memory_op_of(const CUstreamBatchMemOpParams *param);

/* The driver's checks at the call. */
CUresult memory_op_check(const struct memory_op *op);

/* Checks the operations and posts them on the stream, or records them. */
CUresult memory_ops_post(CUstream handle, const struct memory_op *ops, uint32_t n_ops);

#endif
