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

/* The longest name of an argument. */
#define TRACE_NAME_MAX 63

/* How an argument is shown. Its value comes as uint64_t unless stated. */
enum {
	TRACE_STRING = 's',  /* const char *: quoted, shortened, without control characters */
	TRACE_POINTER = 'p', /* const void *, in hex */
	TRACE_HEX = 'h',
	TRACE_SIGNED = 'i', /* int64_t */
	TRACE_UNSIGNED = 'u',
	TRACE_FLOAT = 'f',  /* double */
	TRACE_OPAQUE = 'o', /* a struct passed by value: there is no value, and {...} is shown */
};

/*
 * Whether the caller is to be traced: it then calls its own function once more, which
 * gets false, and writes the line. The first call in a process opens the file.
 */
bool trace_begin(uint64_t *ret_start_ns);

/*
 * Writes the line and returns `result'. `call' is the symbol, NUL, and for each
 * argument the letter of its type and its name, with commas between: "cuInit\0uFlags".
 */
CUresult trace_write(const char *call, uint64_t start_ns, CUresult result, ...);

#endif
