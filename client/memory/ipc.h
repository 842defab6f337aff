/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory and events that clients of one server share. Any thread.
 */

#include "memory.h"

/*
 * A ticket to memory of ours, CU_IPC_HANDLE_SIZE bytes for the program to hand on.
 * `kind' is what it will be to others: MEMORY_IPC or MEMORY_IMPORTED.
 */
CUresult ipc_give(const struct memory_range *range, enum memory_kind kind, void *ret_ticket);

/*
 * Opens what such a ticket is for, at the same address if it is open. `pool': the imported one
 * that the memory is of, in which it is opened once however often; NULL: it is MEMORY_IPC.
 */
CUresult ipc_take(
	struct context *context, struct pool *pool, const void *ticket, CUdeviceptr *ret_address);

/* Counts a close; whether it was opened no more often. */
bool ipc_is_last(uint64_t address);

/*
 * Memory that was given a ticket may be freed: nobody else has it open. Else it is kept
 * until then, and until what is on `stream' now is done (NULL: nothing is waited for).
 */
bool ipc_may_free(const struct memory_range *range, struct stream *stream);

/* The end of the context that opened it. */
CUresult ipc_close_range(const struct memory_range *range);

#endif
