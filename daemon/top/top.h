/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_H
#define TOP_H

/* The command `mps-control top', which the front end itself executes. main() only. */

#include "daemon/config/config.h"

/*
 * Shows the clients until the user ends it, or prints them. `command' is "top" and its
 * arguments; they may be reordered. Returns the exit status of the program.
 */
int top_run(const struct config *config, char *const *command);

/* What follows the name, and the line of the help. */
#define TOP_USAGE " [--once] [--json] [-d SECONDS] [-n COUNT]"
#define TOP_HELP "show clients live: share of SMs, launches, copies, time at work; see mps-top(1)"

#endif
