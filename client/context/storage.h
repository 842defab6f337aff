/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORAGE_H
#define STORAGE_H

/*
 * Context-local storage: values that libraries attach to a context by the address
 * of a key, with a function that is called when the context ends. Any thread.
 */

#include "lock.h"
#include "client/util/api.h"

typedef void (*storage_end_fn)(CUcontext context, void *key, void *value);

struct storage {
	struct lock lock;
	struct storage_entry *first; /* newest first */
};

#define STORAGE_INIT                                                                               \
	{                                                                                          \
		.lock = LOCK_INIT(STORAGE)                                                         \
	}

/* CUDA_ERROR_INVALID_HANDLE: the key exists already, and its value is unchanged. */
CUresult storage_put(struct storage *storage, void *key, void *value, storage_end_fn end);

/* CUDA_ERROR_INVALID_HANDLE: no such key. Does not call the end function. */
CUresult storage_delete(struct storage *storage, void *key);

/* CUDA_ERROR_INVALID_HANDLE: no such key; `*ret_value' is then unchanged. */
CUresult storage_get(struct storage *storage, void *key, void **ret_value);

/* Removes all entries, the last one first, and calls each end function without the lock. */
void storage_end(struct storage *storage, CUcontext context);

#endif
