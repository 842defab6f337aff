/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Objects of the program to which graphs refer, so that the objects exist as long
 * as the graphs. Any thread of the application.
 *
 * Invariant: an object's count is the sum of the references of the program and of
 * all graphs. At 0 the object ends. Like driver 580, the call that takes the last
 * reference calls the end function, without a lock of this library; if work has used the
 * object, the thread of host functions does.
 */

#include <stdatomic.h>

#include "calls_graph.h"
#include "graph.h"
#include "lock.h"
#include "client/util/compat.h"
#include "client/stream/callback.h"

#define USER_OBJECTS_MAX (1u << 20)

struct user_object {
	struct slab_head slab;
	void *pointer;
	CUhostFn destroy;
	uint64_t count;
};

static struct slab objects = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct user_object),
	.n_max = USER_OBJECTS_MAX,
};

/* An object that has ended, but whose end function has not been called yet. */
struct ended_object {
	struct ended_object *next;
	void *pointer;
	CUhostFn destroy;
};

static struct lock lock = LOCK_INIT(USER_OBJECTS); /* protects counts */
static struct ended_object *_Atomic ended;

void user_objects_call_ends(void)
{
	struct ended_object *object;

	if (likely(!atomic_load_explicit(&ended, memory_order_relaxed)))
		return;
	object = atomic_exchange_explicit(&ended, NULL, memory_order_acquire);
	while (object) {
		struct ended_object *next = object->next;

		callback_run_here(object->destroy, object->pointer);
		free(object);
		object = next;
	}
}

static void user_object_end(struct user_object *object, bool is_worked)
{
	struct ended_object *end;
	CUhostFn destroy = object->destroy;
	void *pointer = object->pointer;

	slab_give(&objects, object);
	if (is_worked && callback_run(destroy, pointer))
		return;
	end = malloc(sizeof(*end));
	if (!end) {
		callback_run_here(destroy, pointer);
		return;
	}
	*end = (struct ended_object){.pointer = pointer, .destroy = destroy};
	end->next = atomic_load_explicit(&ended, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(
		&ended, &end->next, end, memory_order_release, memory_order_relaxed))
		;
}

/* `is_worked': the GPU has used it. Without the lock of graphs, call user_objects_call_ends(). */
static void user_object_unref(struct user_object *object, uint64_t count, bool is_worked)
{
	bool is_last;

	lock_take(&lock);
	object->count -= MIN(count, object->count);
	is_last = object->count == 0;
	lock_release(&lock);
	if (is_last)
		user_object_end(object, is_worked);
}

static void user_object_ref(struct user_object *object, uint64_t count)
{
	lock_hold(&lock);
	object->count += count;
}

void graph_release_references(struct graph *graph, bool is_worked)
{
	for (size_t i = 0; i < graph->n_references; i++)
		user_object_unref(
			graph->references[i].object, graph->references[i].count, is_worked);
	free(graph->references);
	graph->references = NULL;
	graph->n_references = 0;
}

static CUresult add_reference(struct graph *graph, struct user_object *object, unsigned count)
{
	struct user_reference *grown;
	size_t i = 0;

	while (i < graph->n_references && graph->references[i].object != object)
		i++;
	if (i == graph->n_references) {
		grown = array_resize(graph->references, i + 1, sizeof(*grown));
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		graph->references = grown;
		grown[i] = (struct user_reference){.object = object};
		graph->n_references++;
	}
	graph->references[i].count += count;
	return CUDA_SUCCESS;
}

CUresult graph_copy_references(const struct graph *from, struct graph *to)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < from->n_references && result == CUDA_SUCCESS; i++) {
		struct user_object *object = from->references[i].object;

		result = add_reference(to, object, from->references[i].count);
		if (result == CUDA_SUCCESS)
			user_object_ref(object, from->references[i].count);
	}
	return result;
}

CUresult local_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
	unsigned int initialRefcount, unsigned int flags)
{
	struct user_object *object;

	object = slab_take(&objects);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->pointer = ptr;
	object->destroy = destroy;
	object->count = initialRefcount;
	*object_out = (CUuserObject)object;
	return CUDA_SUCCESS;
}

CUresult local_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct user_object *found = slab_find(&objects, object);

	if (!found || count == 0 || count > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	user_object_ref(found, count);
	return CUDA_SUCCESS;
}

CUresult local_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct user_object *found = slab_find(&objects, object);

	if (!found || count == 0 || count > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	user_object_unref(found, count, false);
	user_objects_call_ends();
	return CUDA_SUCCESS;
}

CUresult graph_retain_object(
	struct graph *graph, CUuserObject handle, unsigned count, bool moves_reference)
{
	struct user_object *object = slab_find(&objects, handle);
	CUresult result;

	if (!object || count == 0 || count > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	result = add_reference(graph, object, count);
	if (result == CUDA_SUCCESS && !moves_reference)
		user_object_ref(object, count);
	return result;
}

CUresult graph_release_object(struct graph *graph, CUuserObject handle, unsigned count)
{
	struct user_object *object = slab_find(&objects, handle);
	struct user_reference *reference = NULL;

	for (size_t i = 0; i < graph->n_references; i++)
		if (graph->references[i].object == object)
			reference = &graph->references[i];
	if (!object || !reference || count == 0 || count > reference->count)
		return CUDA_ERROR_INVALID_VALUE;
	reference->count -= count;
	if (reference->count == 0)
		*reference = graph->references[--graph->n_references];
	user_object_unref(object, count, false);
	return CUDA_SUCCESS;
}
