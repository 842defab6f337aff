/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_H
#define CONTEXT_H

/*
 * Contexts belong to the client alone: each is a name for the one real context of a
 * GPU. A CUcontext is the address of a struct context, which is never freed, so a
 * handle can be looked up at any time. context.c and current.c call each other: the end
 * of a context makes it current, and a call makes a handle's context current.
 */

#include <stdatomic.h>

#include "device.h"
#include "lock.h"
#include "storage.h"
#include "client/util/api.h"
#include "client/transport/server_link.h"

#define CONTEXT_LIMITS 16

struct coredump;
struct event;
struct green;
struct stream;

struct context {
	struct context *next; /* in the list of all contexts; set before the context can be found */
	struct device *device;
	CUdevice ordinal;
	bool is_primary;
	struct context *home; /* for a green context: the primary context, which owns everything;
				 NULL: not green */
	struct green *green;  /* NULL: no green context, or one that has ended */
	_Atomic uint32_t is_active; /* retained, or created and not destroyed */
	unsigned n_retained;        /* of a primary; under its lock */
	struct lock lock;
	unsigned flags;
	_Atomic uint64_t peers;        /* one bit for each device whose memory it may access */
	unsigned long long id;         /* cuCtxGetId() */
	size_t limits[CONTEXT_LIMITS]; /* set by cuCtxSetLimit() */
	uint32_t limits_set;           /* one bit for each of them; the others are the device's */
	CUfunc_cache cache_config;
	unsigned n_attached;    /* cuCtxAttach(); under its lock */
	_Atomic uint32_t share; /* context_share.h; CONTEXT_SHARES_MAX: the share of the process */
	uint32_t n_sms;         /* SMs of that share */
	struct stream *_Atomic null; /* its own NULL stream; NULL: it uses its device's */
	struct event
		*awaited; /* the event for which new streams wait; under the lock of stream.c */
	struct coredump *coredump; /* NULL: the settings of the process */
	struct storage storage;
};

/* The innermost context of this thread, or NULL. current.c has the outer ones. */
extern _Thread_local struct context *context_current;

/* The green context that made it current, or NULL. Only streams use it. */
extern _Thread_local struct context *context_green;

static inline bool context_is_active(const struct context *context)
{
	return atomic_load_explicit(&context->is_active, memory_order_acquire);
}

/*
 * The start of a call that works in a context: returns the current context if it is
 * active. Otherwise CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, or
 * the fault or the server's end, which every call returns.
 */
static inline CUresult context_enter(struct context **ret_context)
{
	struct context *context = context_current;

	if (unlikely(!context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (unlikely(!context_is_active(context)))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_context = context;
	return server_link_check(&server);
}

/* What was current before context_borrow(). */
struct context_binding {
	struct context *context, *green;
};

/*
 * A call that names an object works in the object's context, whatever is current. The stub makes
 * that context current for the call. NULL: the call names no such object.
 */
static inline struct context_binding context_borrow(struct context *context)
{
	struct context_binding outer = {context_current, context_green};

	if (unlikely(context != outer.context) && context) {
		context_current = context;
		context_green = NULL;
	}
	return outer;
}

static inline void context_return(const struct context_binding *outer)
{
	context_current = outer->context;
	context_green = outer->green;
}

/* Whether a program may set them: there is one way to wait at most. */
bool context_flags_are_valid(unsigned flags);

/*
 * For a call that needs no context: an ended context that is current makes it fail, none does not.
 */
static inline CUresult context_check(void)
{
	const struct context *context = context_current;

	if (unlikely(context && !context_is_active(context)))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return server_link_check(&server);
}

/* The error of a handle that names no object, but perhaps one of that context before its end. */
static inline CUresult context_missing(const struct context *context)
{
	return context && !context_is_active(context) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
						      : CUDA_ERROR_INVALID_HANDLE;
}

/* Creates an inactive context. NULL: out of memory. */
struct context *context_new(struct device *device, CUdevice ordinal, bool is_primary);

/* NULL: no such context; also for a NULL handle. */
struct context *context_find(CUcontext handle);

/* The context of the handle; for NULL the current one. Or CUDA_ERROR_INVALID_CONTEXT. */
CUresult context_named(CUcontext handle, struct context **ret_context);

/* The same, and CUDA_ERROR_CONTEXT_IS_DESTROYED after its end. */
CUresult context_named_active(CUcontext handle, struct context **ret_context);

/*
 * Ends an active context: waits for its work, calls the end functions of its
 * storage while it is current, and frees what it owns. It can be activated again.
 */
void context_end(struct context *context);

/* The primary context of a GPU is active between these. */
CUresult primary_retain(CUcontext *ret_handle, struct device *device);
CUresult primary_release(struct device *device);

/* The calling thread's stack of contexts. */
CUresult context_push(struct context *context);
struct context *context_pop(void);

/* What the program considers the current context. */
static inline struct context *context_named_current(void)
{
	return context_green ? context_green : context_current;
}

#endif
