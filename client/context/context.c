/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, finding and ending contexts, and the stack of current contexts of each thread. Any
 * thread of the application.
 *
 * Invariant: a struct context exists until the process ends. The list of contexts
 * only grows, at its head, and is read without a lock. The innermost context is in a
 * thread-local variable, so reading it costs one load. Only programs that push contexts
 * allocate nodes for the outer ones. A thread that ends with outer contexts leaks their nodes.
 */

#include "context.h"

#include <stdatomic.h>

#include "calls_context.h"
#include "hooks.h"
#include "lock.h"
#include "wire.h"

struct outer {
	struct outer *next;
	struct context *context, *green;
};

static struct context *_Atomic contexts;
static atomic_ullong last_id;

_Thread_local struct context *context_current;
_Thread_local struct context *context_green;
static _Thread_local struct outer *outer_contexts;
/* Distinguishes an empty stack from a stack whose innermost context is NULL. */
static _Thread_local bool is_bound;

struct context *context_new(struct device *device, CUdevice ordinal, bool is_primary)
{
	struct context *context = malloc(sizeof(*context));
	struct context *first = atomic_load_explicit(&contexts, memory_order_acquire);

	if (!context)
		return NULL;
	*context = (struct context){
		.device = device,
		.ordinal = ordinal,
		.is_primary = is_primary,
		.lock = LOCK_INIT(CONTEXT),
		.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1,
		.storage = STORAGE_INIT,
		.share = WIRE_CONTEXT_SHARES_MAX,
	};
	do
		context->next = first;
	while (!atomic_compare_exchange_weak_explicit(
		&contexts, &first, context, memory_order_release, memory_order_acquire));
	return context;
}

bool context_flags_are_valid(unsigned flags)
{
	unsigned wait = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(wait & (wait - 1));
}

struct context *context_find(CUcontext handle)
{
	struct context *context = atomic_load_explicit(&contexts, memory_order_acquire);

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

CUresult context_named_active(CUcontext handle, struct context **ret_context)
{
	CUresult result = context_named(handle, ret_context);

	if (result != CUDA_SUCCESS)
		return result;
	return context_is_active(*ret_context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void bind_thread(struct context *context)
{
	context_current = context->home ? context->home : context;
	context_green = context->home ? context : NULL;
	is_bound = true;
}

CUresult context_push(struct context *context)
{
	struct outer *outer;

	if (is_bound) {
		outer = malloc(sizeof(*outer));
		if (!outer)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*outer = (struct outer){outer_contexts, context_current, context_green};
		outer_contexts = outer;
	}
	bind_thread(context);
	return CUDA_SUCCESS;
}

struct context *context_pop(void)
{
	_cleanup_free_ struct outer *outer = outer_contexts;
	struct context *popped = context_named_current();

	if (outer) {
		outer_contexts = outer->next;
		context_current = outer->context;
		context_green = outer->green;
	} else {
		context_current = context_green = NULL;
		is_bound = false;
	}
	return popped;
}

static void peers_end_context(struct context *context)
{
	struct context *other = atomic_load_explicit(&contexts, memory_order_acquire);

	atomic_store_explicit(&context->peers, 0, memory_order_relaxed);
	for (; other; other = other->next)
		atomic_fetch_and_explicit(
			&other->peers, ~(1ull << context->device->index), memory_order_relaxed);
}

void context_end(struct context *context)
{
	hooks.leave_context(context);
	if (context_push(context) == CUDA_SUCCESS) {
		storage_end(&context->storage, (CUcontext)context);
		context_pop();
	}
	atomic_store_explicit(&context->is_active, 0, memory_order_release);
	hooks.end_context(context);
	context->limits_set = 0;
	peers_end_context(context);
}

/* A destroyed context cannot become current, but stay so; an inactive primary context can. */
static CUresult find_bindable(CUcontext handle, struct context **ret_context)
{
	struct context *context = context_find(handle);

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_primary && !context_is_active(context) &&
		context != context_named_current())
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxSetCurrent(CUcontext ctx)
{
	struct context *context = NULL;
	CUresult result;

	if (!ctx) {
		if (is_bound)
			context_pop();
		return CUDA_SUCCESS;
	}
	result = find_bindable(ctx, &context);
	if (result != CUDA_SUCCESS)
		return result;
	bind_thread(context);
	return CUDA_SUCCESS;
}

CUresult local_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct context *context = NULL;
	CUresult result = ctx ? find_bindable(ctx, &context) : CUDA_ERROR_INVALID_VALUE;

	return result == CUDA_SUCCESS ? context_push(context) : result;
}

CUresult local_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct context *popped;

	if (!is_bound)
		return CUDA_ERROR_INVALID_CONTEXT;
	popped = context_pop();
	if (pctx)
		*pctx = (CUcontext)popped;
	return CUDA_SUCCESS;
}
