/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROUTE_H
#define ROUTE_H

/*
 * Where a driver call goes: to the server, to the machine's own libcuda, or to an
 * error. Decided once per process, at its first call; every call reads it with one
 * load. Any thread.
 */

#include <stdatomic.h>

#include "client/util/api.h"

enum route {
	ROUTE_UNDECIDED,
	ROUTE_MPS,
	ROUTE_NATIVE,
	ROUTE_FAILED, /* there is no server although one was expected */
	ROUTE_FORKED, /* the child of a process that had initialised CUDA */
};

/* Only route.c writes it. */
struct route_state {
	_Atomic uint32_t route;
	_Atomic uint32_t is_initialised; /* cuInit has succeeded */
};
extern struct route_state route_state;

/* Connects to the server, or opens the real libcuda. May take seconds. */
enum route route_decide(void);

static inline enum route route_get(void)
{
	uint32_t route = atomic_load_explicit(&route_state.route, memory_order_acquire);

	return likely(route != ROUTE_UNDECIDED) ? (enum route)route : route_decide();
}

static inline bool route_initialised(void)
{
	return atomic_load_explicit(&route_state.is_initialised, memory_order_acquire);
}

void route_set_initialised(void);

/* The result of every call under ROUTE_FAILED and ROUTE_FORKED. */
CUresult route_error(void);

/* For a forked child, which must not use the parent's server. */
void route_forked(void);

/* Logs a call that returned an error, as the driver does. "Not ready" is not an error. */
__attribute__((cold)) void route_failed(const char *symbol, CUresult result);

/* Returns CUDA_ERROR_NOT_SUPPORTED, and logs the reason once per symbol. */
CUresult refuse(const char *symbol, const char *why);

#endif
