/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_H
#define COMMAND_H

/*
 * The commands, their arguments, who may give them and what they answer. Loop
 * thread.
 */

#include <sys/types.h>

#include "base.h"

struct conn;

/*
 * Runs a line (which it changes). The reply is there when it returns, or the
 * connection `is_waiting' and command_resume() follows.
 */
void command_run(struct conn *conn, char *line);

/* All commands, to standard output. */
void commands_print(void);

/* The command that the connection waits for has taken too long. */
void command_on_deadline(struct conn *conn);

#endif
