/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The stack of current contexts of each thread, and the calls that change it.
 *
 * Invariant: the innermost context is in a thread-local variable, so reading it
 * costs one load. Only programs that push contexts allocate nodes for the outer
 * ones. A thread that ends with outer contexts leaks their nodes.
 */

#include "client.h"
#include "context.h"

struct outer {
	struct outer *next;
	struct context *context, *green;
};

_Thread_local struct context *context_current;
_Thread_local struct context *context_green;
static _Thread_local struct outer *outer_contexts;
/* Distinguishes an empty stack from a stack whose innermost context is NULL. */
static _Thread_local bool is_bound;

bool context_is_bound(void)
{
	return is_bound;
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
