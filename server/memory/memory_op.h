/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_OP_H
#define MEMORY_OP_H

/*
 * Stream memory operations: write a semaphore, wait for one, barrier. A client may name any
 * memory, and may wait for ever. The session's worker only.
 */

#include "server/driver/driver.h"

struct memory_op;
struct session;

bool memory_op_is_wait(const struct memory_op *op);
uint32_t memory_ops_count_waits(const struct memory_op *ops, uint32_t n_ops);
bool memory_op_is_64(const struct memory_op *op);
uint32_t memory_op_size(const struct memory_op *op); /* bytes of its semaphore; 0: it has none */

/* The value that ends a wait. False: no value does. */
bool memory_op_release_value(const struct memory_op *op, uint64_t *ret_value);

/* Checks the operation and converts it for the driver. */
CUresult memory_op_convert(
	struct session *session, const struct memory_op *op, CUstreamBatchMemOpParams *ret_param);

#endif
