/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory and events that clients of one server share. Any thread.
 */

#include "memory.h"

/* Memory that was given a handle may be freed: nobody else has it open. Else it is kept. */
bool ipc_may_free(const struct memory_range *range);

/* The end of the context that opened it. */
CUresult ipc_close_range(const struct memory_range *range);

#endif
