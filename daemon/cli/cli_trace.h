/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

/*
 * The command trace in the front end, which checks and writes FILE with the rights of its
 * user. Main thread.
 */

#include <stdbool.h>

struct config;

/* Whether the command is for cli_trace_run(). */
bool cli_trace_wants(char *const *command);

/* The exit status. */
int cli_trace_run(const struct config *config, char *const *command, bool is_strict);

#endif
