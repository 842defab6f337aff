/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_H
#define COMMAND_H

/*
 * The table of commands: arguments, help and dispatch. Loop thread.
 */

#include <sys/types.h>

#include "base.h"

struct conn;

/*
 * Runs a line, which it modifies. On return the reply is queued, or the
 * command is pending (pending.h).
 */
void command_run(struct conn *conn, char *line);

/* Prints all commands to standard output. */
void commands_print(void);

#endif
