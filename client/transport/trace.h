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

#include "client/util/api.h"

enum trace_state {
	TRACE_UNDECIDED,
	TRACE_OFF,
	TRACE_ON,
};

/* Written by trace.c alone. */
extern uint32_t trace_state;

static inline bool trace_is_off(void)
{
	return __atomic_load_n(&trace_state, __ATOMIC_RELAXED) == TRACE_OFF;
}

/* Longest line. */
#define TRACE_LINE_MAX 1024

/* One call on its way. */
struct trace {
	CUresult result; /* set by the stub between trace_start() and trace_end() */
	uint64_t start_ns;
	uint32_t n_text;
	uint32_t n_args;
	uint32_t is_full; /* what follows is left out */
	char text[TRACE_LINE_MAX];
};

/* The first one in a process opens the file; without one all that follows does nothing. */
void trace_begin(struct trace *trace, const char *call);

void trace_pointer(struct trace *trace, const char *name, const void *value);
void trace_hex(struct trace *trace, const char *name, uint64_t value);
void trace_signed(struct trace *trace, const char *name, int64_t value);
void trace_unsigned(struct trace *trace, const char *name, uint64_t value);
void trace_float(struct trace *trace, const char *name, double value);

/* A struct passed by value: its bytes are not shown. */
void trace_opaque(struct trace *trace, const char *name);

/* Quoted, cut, control characters replaced. NULL is shown as such. */
void trace_string(struct trace *trace, const char *name, const char *value);

/* Right before the call, and right after it: writes the line and returns the result. */
void trace_start(struct trace *trace);
CUresult trace_end(struct trace *trace);

#endif
