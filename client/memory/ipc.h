/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/* Memory and events that clients of one server share. Any thread. */

#include "memory.h"

/*
 * Writes a ticket for memory of this process: CU_IPC_HANDLE_SIZE bytes that the
 * program passes to other processes. `kind' is its kind in those: MEMORY_IPC or
 * MEMORY_IMPORTED.
 */
CUresult ipc_give(const struct memory_range *range, enum memory_kind kind, void *ret_ticket);

/*
 * Opens the memory of a ticket; if it is open already, returns the same address.
 * `pool': the imported pool of the memory, which opens the memory only once; NULL:
 * MEMORY_IPC.
 */
CUresult ipc_take(
	struct context *context, struct pool *pool, const void *ticket, CUdeviceptr *ret_address);

/* Counts a close. Returns whether it was the last one. */
bool ipc_is_last(uint64_t address);

/*
 * Whether exported memory may be freed, because no other process has it open. If
 * not, the memory is kept until they have closed it and the current work on
 * `stream' is done (NULL: no work).
 */
bool ipc_may_free(const struct memory_range *range, struct stream *stream);

/*
 * Frees kept memory that other processes have closed. Does not wait for the lock; asks the
 * server only if it may. Whether there is more.
 */
bool ipc_free_closed(bool may_ask);

/* For the end of the context that opened it. */
CUresult ipc_close_range(const struct memory_range *range);

#endif
