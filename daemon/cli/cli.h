/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_H
#define CLI_H

#include <stdio.h>

#include "daemon/config/config.h"

/*
 * The command line: sends commands to the daemon and prints the answers.
 * `command' is one command; if it is empty, each line of standard input is
 * one. Blocks until every command is answered. Returns the exit status of the
 * program: 0 if the daemon answered, even if a command failed; with
 * `is_strict' 0 only if no command failed.
 */
int cli_run(const struct config *config, char *const *command, bool is_strict);

/*
 * The same for a command, or several lines, whose reply goes to `out'. Failures are also
 * printed on standard error.
 */
int cli_ask(const struct config *config, const char *command, FILE *out, bool *ret_has_failed);

#endif
