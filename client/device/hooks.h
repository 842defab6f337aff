/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKS_H
#define HOOKS_H

/*
 * What the rooms above do at moments that a lower room knows. entry/hooks.c
 * provides it, so that no room includes one above it. Any thread.
 */

#include "client/util/api.h"

struct context;
struct device;
struct stream;

struct hooks {
	/* A GPU is opened; under the lock of device_open(). */
	void (*open_device)(struct device *device);

	/* A context ends: first while calls can still work in it, then when they no longer can. */
	void (*leave_context)(struct context *context);
	void (*end_context)(struct context *context);

	/* The host has waited for streams, and stream_waited() found memory to give back. */
	void (*reclaim_pools)(void);

	/*
	 * cuMemFree() and cuMemFreeAsync() of memory that a graph allocated; NULL as a stream: all
	 * work has ended. CUDA_ERROR_INVALID_VALUE: it is not there, or its own graph frees it.
	 */
	CUresult (*free_graph_memory)(uint64_t address, struct stream *stream);
};

extern const struct hooks hooks;

#endif
