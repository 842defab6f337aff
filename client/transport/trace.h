/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_H
#define TRACE_H

/*
 * MPS_CLIENT_TRACE=FILE: a line for each call of the application,
 *
 *   SECONDS THREAD CALL(NAME=VALUE, …) = RESULT MICROSECONDS
 *
 * SECONDS count from the first traced call of the process. `%p' in FILE is the
 * process id. Where FILE ends in .json, a line is an event as Chrome's and Perfetto's
 * viewers read them, in an array without an end. Any thread; a line is one write().
 * The stubs (build/gen/stubs.c) are the only users.
 */

#include <stdatomic.h>

#include "client/util/api.h"

enum trace_state {
	TRACE_UNDECIDED,
	TRACE_OFF,
	TRACE_ON,
};

/* Only trace.c writes it. */
extern _Atomic uint32_t trace_state;

static inline bool trace_is_off(void)
{
	return atomic_load_explicit(&trace_state, memory_order_relaxed) == TRACE_OFF;
}

/* The longest line. */
#define TRACE_LINE_MAX 1024

/* The trace of one call. */
struct trace {
	CUresult result; /* set by the stub between trace_start() and trace_end() */
	uint64_t start_ns;
	uint32_t n_text;
	uint32_t n_args;
	uint32_t is_full; /* later arguments are left out */
	char text[TRACE_LINE_MAX];
};

/*
 * The first call in a process opens the file. Without a file, all functions that
 * follow do nothing.
 */
void trace_begin(struct trace *trace, const char *call);

void trace_pointer(struct trace *trace, const char *name, const void *value);
void trace_hex(struct trace *trace, const char *name, uint64_t value);
void trace_signed(struct trace *trace, const char *name, int64_t value);
void trace_unsigned(struct trace *trace, const char *name, uint64_t value);
void trace_float(struct trace *trace, const char *name, double value);

/* A struct passed by value; its bytes are not shown. */
void trace_opaque(struct trace *trace, const char *name);

/*
 * The string is quoted and shortened, and control characters are replaced. NULL is
 * shown as NULL.
 */
void trace_string(struct trace *trace, const char *name, const char *value);

/* Immediately before and after the call. trace_end() writes the line and returns the result. */
void trace_start(struct trace *trace);
CUresult trace_end(struct trace *trace);

#endif
