/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

/*
 * Events of a trace in the Trace Event Format, which Perfetto and Chrome show. Any thread.
 */

#include "trace_file.h"
#include "daemon/text/json.h"

/* Whether the chunk is in use, and its numbers are possible. Ends its strings. */
bool trace_chunk_ok(struct trace_chunk *chunk);

/* A list with the events of a chunk that is OK; the caller owns it. NULL: no memory. */
json_t *trace_text(const struct trace_chunk *chunk);

#endif
