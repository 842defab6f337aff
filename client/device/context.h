/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_H
#define CONTEXT_H

/*
 * Contexts are the client's own: names for the one real context of a GPU. A
 * CUcontext is the address of a struct context, which is never freed, so that
 * a handle can be looked up at any time.
 */

#include "client/util/api.h"
#include "device.h"
#include "client/transport/server_link.h"
#include "storage.h"

#define CONTEXT_LIMITS 16

struct coredump;
struct event;
struct green;
struct stream;

struct context {
	struct context *next; /* of all contexts; set before it can be found */
	struct device *device;
	CUdevice ordinal;
	bool is_primary;
	struct context *home; /* of a green one's: the primary, which owns all; NULL: its own */
	struct green *green;  /* NULL: it is none's, or of one that has gone */
	uint32_t is_active;   /* atomic: retained, or created and not destroyed */
	unsigned n_retained;  /* of a primary; under its lock */
	pthread_mutex_t lock;
	unsigned flags;
	uint64_t peers;                /* atomic: a bit for each device whose memory it may touch */
	unsigned long long id;         /* cuCtxGetId() */
	size_t limits[CONTEXT_LIMITS]; /* set by cuCtxSetLimit(); 0: as the device has it */
	CUfunc_cache cache_config;
	unsigned n_attached;       /* cuCtxAttach(); under its lock */
	uint32_t share;            /* context_share.h; CONTEXT_SHARES_MAX: the process's */
	uint32_t n_sms;            /* of that share */
	struct stream *null;       /* atomic: its own NULL stream; NULL: it has its device's */
	struct event *awaited;     /* what new streams wait for; under the lock of stream.c */
	struct coredump *coredump; /* NULL: as the process has it */
	struct storage storage;
};

/* The innermost context of this thread; NULL: none. Outer ones are in current.c. */
extern _Thread_local struct context *context_current;

/* The green one that it was made current by; NULL: none. Only streams ask. */
extern _Thread_local struct context *context_green;

/*
 * What a call that works in a context begins with: the current one, if it is
 * alive. CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, or the
 * fault or death that every call returns.
 */
static inline CUresult context_enter(struct context **ret_context)
{
	struct context *context = context_current;

	if (unlikely(!context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (unlikely(!__atomic_load_n(&context->is_active, __ATOMIC_ACQUIRE)))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_context = context;
	return server_link_check(&server);
}

/* A new context that is not active. NULL: no memory. */
struct context *context_new(struct device *device, CUdevice ordinal, bool is_primary);

/* NULL: no such context. NULL as a handle is none either. */
struct context *context_find(CUcontext handle);

/* The one of the handle, or the current one for NULL. CUDA_ERROR_INVALID_CONTEXT. */
CUresult context_named(CUcontext handle, struct context **ret_context);

/*
 * The end of an active context: waits for its work, calls the end functions of
 * its storage with it current, frees what it owns. It can be activated again.
 */
void context_end(struct context *context);

/* The calling thread's stack of contexts (current.c). */
CUresult context_push(struct context *context);
struct context *context_pop(void);

/* What a program knows as the current one. */
static inline struct context *context_named_current(void)
{
	return context_green ? context_green : context_current;
}
bool context_is_bound(void);

#endif
