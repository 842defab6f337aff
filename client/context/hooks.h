/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKS_H
#define HOOKS_H

/*
 * What higher rooms do at moments that only a lower room knows. entry/hooks.c
 * provides the functions, so that no room includes a higher one. Any thread.
 */

#include "client/util/api.h"

struct context;
struct device;
struct stream;

struct hooks {
	/* A GPU has been opened; under the lock of device_open(). */
	void (*open_device)(struct device *device);

	/* A context has got its own share of the SMs: makes its own NULL stream. */
	CUresult (*open_share)(struct context *context);

	/*
	 * A context ends: leave_context() while calls can still work in it, end_context() when
	 * they no longer can.
	 */
	void (*leave_context)(struct context *context);
	void (*end_context)(struct context *context);

	/*
	 * The host has waited for streams, and stream_waited() found pools with memory to
	 * return.
	 */
	void (*reclaim_pools)(void);

	/*
	 * The thread of callback_expect_ends(): frees what waited for the end of work that
	 * has ended, without waiting for locks, and for an answer only if `may_ask'. Whether
	 * more waits.
	 */
	bool (*free_ended)(bool may_ask);

	/*
	 * cuMemFree() and cuMemFreeAsync() of memory that a graph allocated. A NULL stream: all
	 * work has ended. CUDA_ERROR_INVALID_VALUE: no such allocation, or its own graph frees
	 * it.
	 */
	CUresult (*free_graph_memory)(uint64_t address, struct stream *stream);
};

extern const struct hooks hooks;

#endif
