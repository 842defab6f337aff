/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

/*
 * Events of a trace in the Trace Event Format, which Perfetto and Chrome show. Any thread.
 */

#include <inttypes.h>

#include "trace_file.h"
#include "daemon/text/json.h"

/* The daemon's reply to `trace stop', one line for each trace. */
#define TRACE_LINE                                                                                 \
	"Trace %" PRIu64 " of server %d: %u chunks, %" PRIu64 " events, %u clients, %" PRIu64      \
	" lost, cut short %d"
#define TRACE_LINE_SCAN                                                                            \
	"Trace %" SCNu64 " of server %d: %u chunks, %" SCNu64 " events, %u clients, %" SCNu64      \
	" lost, cut short %d"

/* Whether the chunk is in use, and its numbers are possible. Ends its strings. */
bool trace_chunk_ok(struct trace_chunk *chunk);

/* A list with the events of a chunk that is OK; the caller owns it. NULL: no memory. */
json_t *trace_text(const struct trace_chunk *chunk);

#endif
