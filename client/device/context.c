/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, finding and ending contexts. Any thread of the application.
 *
 * Invariant: a struct context exists until the process ends. The list of contexts
 * only grows, at its head, and is read without a lock.
 */

#include "context.h"
#include "hooks.h"
#include "wire.h"

static struct context *contexts;
static unsigned long long last_id;

struct context *context_new(struct device *device, CUdevice ordinal, bool is_primary)
{
	struct context *context = malloc(sizeof(*context));
	struct context *first = __atomic_load_n(&contexts, __ATOMIC_ACQUIRE);

	if (!context)
		return NULL;
	*context = (struct context){
		.device = device,
		.ordinal = ordinal,
		.is_primary = is_primary,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED),
		.storage = STORAGE_INIT,
		.share = WIRE_CONTEXT_SHARES_MAX,
	};
	do
		context->next = first;
	while (!__atomic_compare_exchange_n(
		&contexts, &first, context, true, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	return context;
}

struct context *context_find(CUcontext handle)
{
	struct context *context = __atomic_load_n(&contexts, __ATOMIC_ACQUIRE);

	while (context && (CUcontext)context != handle)
		context = context->next;
	return context;
}

CUresult context_named(CUcontext handle, struct context **ret_context)
{
	struct context *context = handle ? context_find(handle) : context_named_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = context;
	return CUDA_SUCCESS;
}

static void peers_end_context(struct context *context)
{
	struct context *other = __atomic_load_n(&contexts, __ATOMIC_ACQUIRE);

	__atomic_store_n(&context->peers, 0, __ATOMIC_RELAXED);
	for (; other; other = other->next)
		__atomic_fetch_and(
			&other->peers, ~(1ull << context->device->index), __ATOMIC_RELAXED);
}

void context_end(struct context *context)
{
	hooks.leave_context(context);
	if (context_push(context) == CUDA_SUCCESS) {
		storage_end(&context->storage, (CUcontext)context);
		context_pop();
	}
	__atomic_store_n(&context->is_active, 0, __ATOMIC_RELEASE);
	hooks.end_context(context);
	for (unsigned i = 0; i < CONTEXT_LIMITS; i++)
		context->limits[i] = 0;
	peers_end_context(context);
}
