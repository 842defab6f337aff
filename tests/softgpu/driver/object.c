/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live handles: a hash table of every object by its address, so that a wrong
 * handle is an error and never a crash.
 *
 * Runs in any thread, under the driver's lock. An object is in the table from
 * object_add() to object_remove(), and its memory is not freed in between.
 */

#include "driver.h"

#define BUCKETS 4096

static struct object *buckets[BUCKETS];

static struct object **bucket_of(const void *handle)
{
	uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[hash >> 52];
}

void object_add(struct object *object, enum object_kind kind)
{
	struct object **bucket = bucket_of(object);

	object->kind = kind;
	object->next = *bucket;
	*bucket = object;
}

void object_remove(struct object *object)
{
	struct object **link = bucket_of(object);

	while (*link && *link != object)
		link = &(*link)->next;
	if (*link)
		*link = object->next;
	object->kind = OBJECT_NONE;
}

void *object_find(enum object_kind kind, const void *handle)
{
	for (struct object *object = *bucket_of(handle); object; object = object->next)
		if (object == handle)
			return object->kind == kind ? object : NULL;
	return NULL;
}
