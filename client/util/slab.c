/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Numbered objects in one mapping; only used objects consume memory. Any thread of
 * the application.
 *
 * Invariant: the mapping never moves, and the head of each object is valid memory
 * whether the object is in use or not.
 */

#include "slab.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "lock.h"

static uint8_t *slab_base(struct slab *slab)
{
	void *map;

	if (slab->base)
		return slab->base;
	map = mmap(NULL, slab->object_size * slab->n_max, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&slab->base, map, memory_order_release);
	return map;
}

void *slab_take(struct slab *slab)
{
	struct slab_head *head = NULL;
	uint8_t *base;

	lock_hold(&slab->lock);
	base = slab_base(slab);
	if (base && slab->first_free) {
		head = (void *)(base + (slab->first_free - 1) * slab->object_size);
		slab->first_free = head->next_free;
	} else if (base && slab->n_ever < slab->n_max)
		head = (void *)(base + slab->n_ever++ * slab->object_size);
	if (head) {
		memset(head, 0, slab->object_size);
		atomic_store_explicit(&head->is_used, 1, memory_order_release);
	}
	return head;
}

void slab_give(struct slab *slab, void *object)
{
	struct slab_head *head = object;

	lock_hold(&slab->lock);
	atomic_store_explicit(&head->is_used, 0, memory_order_release);
	head->next_free = slab->first_free;
	slab->first_free = slab_id(slab, object) + 1;
}

void *slab_slot(const struct slab *slab, const void *handle)
{
	uint8_t *base = atomic_load_explicit(&slab->base, memory_order_acquire);
	uintptr_t at = (uintptr_t)handle - (uintptr_t)base;

	if (!base || at >= slab->object_size * slab->n_max || at % slab->object_size != 0)
		return NULL;
	return base + at;
}

void *slab_find(const struct slab *slab, const void *handle)
{
	struct slab_head *head = slab_slot(slab, handle);

	return head && atomic_load_explicit(&head->is_used, memory_order_acquire) ? head : NULL;
}
