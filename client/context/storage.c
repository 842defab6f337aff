/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Context-local storage. Any thread of the application.
 *
 * Invariant: an end function runs without a lock of this library and after its
 * entry has been removed, so it may use the same storage.
 */

#include "storage.h"

#include "lock.h"

struct storage_entry {
	struct storage_entry *next;
	void *key;
	void *value;
	storage_end_fn end;
};

/* The pointer to the key's entry, or the pointer at the end of the list. */
static struct storage_entry **storage_find(struct storage *storage, const void *key)
{
	struct storage_entry **at = &storage->first;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

CUresult storage_put(struct storage *storage, void *key, void *value, storage_end_fn end)
{
	_cleanup_free_ struct storage_entry *entry = malloc(sizeof(*entry));
	CUresult result = CUDA_SUCCESS;

	if (!entry)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*entry = (struct storage_entry){.key = key, .value = value, .end = end};
	lock_hold(&storage->lock);
	if (*storage_find(storage, key))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its attribute frees it */
		result = CUDA_ERROR_INVALID_HANDLE;
	else {
		entry->next = storage->first;
		storage->first = TAKE_PTR(entry);
	}
	return result;
}

CUresult storage_delete(struct storage *storage, void *key)
{
	_cleanup_free_ struct storage_entry *entry = NULL;
	struct storage_entry **at;

	lock_hold(&storage->lock);
	at = storage_find(storage, key);
	entry = *at;
	if (entry)
		*at = entry->next;
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult storage_get(struct storage *storage, void *key, void **ret_value)
{
	const struct storage_entry *entry;

	lock_hold(&storage->lock);
	entry = *storage_find(storage, key);
	if (entry)
		*ret_value = entry->value;
	return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static struct storage_entry *take_newest(struct storage *storage)
{
	struct storage_entry *entry;

	lock_hold(&storage->lock);
	entry = storage->first;
	if (entry)
		storage->first = entry->next;
	return entry;
}

void storage_end(struct storage *storage, CUcontext context)
{
	struct storage_entry *entry;

	while ((entry = take_newest(storage))) {
		if (entry->end)
			entry->end(context, entry->key, entry->value);
		free(entry);
	}
}
