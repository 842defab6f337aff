/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

/*
 * The command trace in the front end, which checks and writes FILE with the rights of its
 * user. Main thread.
 */

#include <inttypes.h>
#include <stdbool.h>

struct config;

/* The daemon's reply to `trace stop', one line for each trace. */
#define TRACE_LINE                                                                                 \
	"Trace %" PRIu64 " of server %d: %u chunks, %" PRIu64 " events, %u clients, %" PRIu64      \
	" lost, cut short %d"
#define TRACE_LINE_SCAN                                                                            \
	"Trace %" SCNu64 " of server %d: %u chunks, %" SCNu64 " events, %u clients, %" SCNu64      \
	" lost, cut short %d"

/* Whether the command is for cli_trace_run(). */
bool cli_trace_wants(char *const *command);

/* The exit status. */
int cli_trace_run(const struct config *config, char *const *command, bool is_strict);

#endif
