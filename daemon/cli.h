/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_H
#define CLI_H

#include "config.h"

/*
 * The front end: sends commands to the daemon and prints what it answers. The
 * words are one command, or (none) lines of standard input are. Blocks until
 * all is answered. Returns the program's exit status: 0 if the daemon answered,
 * whatever it said; with `is_strict' only if no command failed, too.
 */
int cli_run(const struct config *config, char *const *command, bool is_strict);

#endif
