/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_H
#define CONTEXT_H

/*
 * A context: streams, events and modules that live and die together on one
 * device. A device's primary context is made at cuInit() and never freed; it
 * is active, and then like any other, while somebody retains it.
 *
 * All under the driver's lock. Memory belongs to devices, not to contexts,
 * but what was allocated in a context is freed with it.
 */

#include "tests/softgpu/driver/driver.h"
#include "client/device/storage.h"

#define CONTEXT_STACK_MAX 64

struct event;
struct green;
struct module;

struct context {
	struct object object;
	struct context *next; /* driver::contexts */
	struct device *device;
	bool is_primary;
	bool is_active;
	uint32_t refs; /* of a primary: how often it is retained */
	unsigned flags;
	uint64_t id;
	size_t limits[CU_LIMIT_MAX];
	size_t local_most; /* bytes a thread of what was launched: memory for it is there */
	CUfunc_cache cache_config;
	struct stream *streams; /* with work or a handle, the NULL stream among them */
	struct stream *null_stream;
	struct green *greens; /* of a primary */
	struct event *events;
	struct module *modules;
	/* What the runtime hangs on it; has a lock of its own. Shared code: export.c says why. */
	struct storage storage;
};

/* NULL without memory. Takes no claim on the device: context_start() does. */
struct context *context_new(struct device *device, bool is_primary);
CUresult context_start(struct context *context);

/*
 * Ends its storage, with the lock given away, drops what its streams still have
 * to do, frees what it owns, makes it inactive.
 */
void context_stop(struct context *context);

/* The calling thread's current context, alive; never NULL after ENTER(CALL_CONTEXT). */
struct context *context_current(void);
bool context_is_sync(void); /* CU_CTX_SYNC_MEMOPS is set in the current one */
CUresult context_check(void);

/* The context that a handle names; NULL is the current one. A green one's is the primary. */
CUresult context_get(CUcontext handle, struct context **ret_context);

/* The green context that a handle names, or that is current; NULL: it is an ordinary one. */
struct green *context_green(CUcontext handle);

/* Waits for all that its streams have been given so far. */
CUresult context_wait(struct context *context);
CUresult device_wait(const struct device *device);

#endif
