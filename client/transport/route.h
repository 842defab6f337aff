/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROUTE_H
#define ROUTE_H

/*
 * Where a driver call goes: to the server, to the machine's own libcuda, or to an
 * error. Decided once per process, at its first call. Any thread.
 *
 * An exported function (build/gen/stubs.c) reads one word: when nothing else is to be
 * done first, calls go to the server. Otherwise it asks how to go on.
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
	_Atomic uint32_t is_open;        /* ROUTE_MPS, initialised, and calls are not traced */
};
extern struct route_state route_state;

/* Whether this thread is in a host function, which must not call CUDA. */
extern _Thread_local bool callback_is_running;

/* Connects to the server, or opens the real libcuda. May take seconds. */
enum route route_decide(void);

static inline enum route route_get(void)
{
	uint32_t route = atomic_load_explicit(&route_state.route, memory_order_acquire);

	return likely(route != ROUTE_UNDECIDED) ? (enum route)route : route_decide();
}

/* Whether a call may go to the server at once. */
static inline bool route_is_open(void)
{
	return atomic_load_explicit(&route_state.is_open, memory_order_acquire) &&
	       !callback_is_running;
}

/* How an exported function goes on. */
struct entry {
	enum {
		ENTRY_SERVED,  /* the client answers */
		ENTRY_NATIVE,  /* the real libcuda answers */
		ENTRY_REFUSED, /* with `result' */
		ENTRY_TRACED,  /* trace_begin() has set `start_ns' */
	} way;
	CUresult result;
	uint64_t start_ns;
};

/*
 * If route_is_open() is false. `real_at' is the call's place among the pointers of `real'. An
 * early call is answered without a server too: if there is none, the program learns the reason
 * from cuInit().
 */
__attribute__((cold)) struct entry route_ask(size_t real_at, bool is_early);

void route_set_initialised(void);

/* The result of every call under ROUTE_FAILED and ROUTE_FORKED. */
CUresult route_error(void);

/*
 * Logs a call that returned an error, as the driver does, and returns the error. "Not
 * ready" is not an error.
 */
__attribute__((cold)) CUresult route_failed(const char *symbol, CUresult result);

/* Returns CUDA_ERROR_NOT_SUPPORTED, and logs the reason once per symbol. */
CUresult refuse(const char *symbol, const char *why);

#endif
