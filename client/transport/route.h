/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROUTE_H
#define ROUTE_H

/*
 * Where a driver call goes: to our server, to the machine's own libcuda, or
 * nowhere. Decided once a process at its first call; looked up by each with
 * one load. Any thread.
 */

#include "client/util/api.h"

enum route {
	ROUTE_UNDECIDED,
	ROUTE_MPS,
	ROUTE_NATIVE,
	ROUTE_FAILED, /* no server although there should be one */
	ROUTE_FORKED, /* child of a process that had initialised CUDA */
};

/* Written by route.c alone. */
struct route_state {
	uint32_t route;
	uint32_t is_initialised; /* cuInit has succeeded */
};
extern struct route_state route_state;

/* Connects to the server or opens the real libcuda. May take seconds. */
enum route route_decide(void);

static inline enum route route_get(void)
{
	uint32_t route = __atomic_load_n(&route_state.route, __ATOMIC_ACQUIRE);

	return likely(route != ROUTE_UNDECIDED) ? (enum route)route : route_decide();
}

static inline bool route_initialised(void)
{
	return __atomic_load_n(&route_state.is_initialised, __ATOMIC_ACQUIRE);
}

void route_set_initialised(void);

/* What every call returns under ROUTE_FAILED and ROUTE_FORKED. */
CUresult route_error(void);

/* In a forked child: the parent's server is not the child's. */
void route_forked(void);

/* What a driver notes in its log of a call that returned an error; that it is not ready is none. */
__attribute__((cold)) void route_failed(const char *symbol, CUresult result);

/* CUDA_ERROR_NOT_SUPPORTED, told once for each symbol. */
CUresult refuse(const char *symbol, const char *why);

#endif
