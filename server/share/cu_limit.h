/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CU_LIMIT_H
#define CU_LIMIT_H

/*
 * Limits of a GPU's context that affect kernels: the stack of a thread, the device heap, the
 * buffer of printf. They are the same for all clients.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"

struct device;
struct session_device;
struct session;

/* CUlimits from 0 on. */
#define LIMITS_RAISED 3

/*
 * The requests of a session on one GPU; part of its session_device. Zero-initialised is no
 * request.
 */
struct cu_limit_asks {
	struct cu_limit_asks *next; /* of the device */
	uint64_t value[LIMITS_RAISED];
	uint64_t graph_stack; /* of the graphs that keep the stack; 0: none does */
	unsigned n_graphs;    /* that keep the stack */
	bool is_listed;
	bool is_refusal_logged; /* in the log */
};

/* Of a GPU, under the lock of cu_limit.c unless a member is atomic. */
struct raised_limits {
	uint64_t now[LIMITS_RAISED]; /* since the first values; 0: not raised */
	uint64_t set[LIMITS_RAISED]; /* last set in the driver, which may have rounded it */
	struct cu_limit_asks *asks;  /* requests of sessions */
	uint64_t heap_first;         /* raised by the server for all clients; 0: not raised */
	uint64_t stack_refused;      /* size that the driver refused at that time; 0: none */
	uint64_t stack_refused_ms;
	CUresult stack_refusal;
	bool wants_lower;            /* no session asks for a limit that was raised */
	atomic_uint n_stack_lowered; /* how often */
	_Atomic bool is_stack_large; /* it may be larger than at first */
	_Atomic bool is_stack_kept;  /* only graphs still need its size */
};

/*
 * Makes local memory for a kernel with this many bytes per thread. Otherwise the driver
 * would do that at the launch, waiting for all that is on the GPU with its lock held, also
 * for a blocked stream. A worker.
 */
CUresult cu_limit_cover_local(struct session *session, struct device *device, uint32_t bytes);

/*
 * Graphs. The driver gives a kernel whose stack has no known size, for example because it
 * calls printf, the limit of the moment when its graph is made or the kernel is set in the graph.
 * If such a graph is launched after the stack was lowered, the context ends (measured:
 * driver_stack.c). So the stack is not lowered below the size that it had then, until the graph
 * ends.
 *
 * Around the driver's call: call cu_limit_n_stack_lowered(), make the graph, call
 * cu_limit_keep_stack(); if the number has changed, make the graph again. `keeps' belongs to the
 * graph and is false at first; if it is true at the end of the graph, call
 * cu_limit_release_stack(). A worker.
 */
unsigned cu_limit_n_stack_lowered(const struct device *device);
void cu_limit_keep_stack(struct session_device *sdev, bool *keeps);
void cu_limit_release_stack(struct session_device *sdev);

/* Whether the stack would be much smaller without graphs. */
bool cu_limit_is_stack_kept(const struct device *device);

/* The session leaves the GPU: limits that only it has requested are lowered later. A worker. */
void cu_limits_forget(struct session_device *sdev, bool device_lost);

#endif
