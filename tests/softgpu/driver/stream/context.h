/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_H
#define CONTEXT_H

/*
 * A context: streams, events and modules with a common life on one device. A
 * device's primary context is created at cuInit() and never freed. While it is
 * retained, it is active like any other context.
 *
 * All under the driver's lock. Memory belongs to devices, not to contexts, but
 * memory that was allocated in a context is freed with it.
 */

#include <stdatomic.h>

#include "client/context/storage.h"
#include "tests/softgpu/driver/driver.h"

struct event;
struct green;
struct module;

struct context {
	struct object object;
	struct context *next; /* driver::contexts */
	struct device *device;
	bool is_primary;
	bool is_active;
	uint32_t refs; /* of a primary context: how often it is retained */
	unsigned flags;
	unsigned n_attached; /* by cuCtxAttach() */
	uint64_t id;
	size_t limits[CU_LIMIT_MAX];
	atomic_uint n_loops;   /* of graphs that run now: conditional_work.c */
	atomic_uint n_kernels; /* outside loops that run now, if loops have to be alone */
	size_t local_most; /* bytes of a thread for which memory exists, from the kernels launched
			      so far */
	CUfunc_cache cache_config;
	struct stream *streams; /* with work or a handle, including the NULL stream */
	struct stream *null_stream;
	struct green *greens; /* of a primary context */
	struct event *events;
	struct module *modules;
	/* What the runtime stores in it; has a separate lock. Shared code: see export.c. */
	struct storage storage;
};

/* NULL without memory. Takes no claim on the device; context_start() does. */
struct context *context_new(struct device *device, bool is_primary);
CUresult context_start(struct context *context);

/*
 * Ends its storage, with the lock released, drops queued work of its streams, frees
 * what it owns, and makes it inactive.
 */
void context_stop(struct context *context);

/* The calling thread's current, existing context; never NULL after ENTER(CALL_CONTEXT). */
struct context *context_current(void);
bool context_is_sync(void); /* the current context has CU_CTX_SYNC_MEMOPS */
CUresult context_check(void);
/* An ended context is current; a handle that names no object may have ended with it. */
bool context_has_ended(void);

/* The context of a handle; NULL: the current context. A green context's is the primary one. */
CUresult context_get(CUcontext handle, struct context **ret_context);

/* The green context of a handle, or the current one; NULL: an ordinary context. */
struct green *context_green(CUcontext handle);

/* Waits for all work that its streams have so far. */
CUresult context_wait(struct context *context);
CUresult device_wait(const struct device *device);

#endif
