/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_H
#define CHECK_H

/* mps-control check-config and check-directory, which need no daemon. main() only. */

#include "daemon/config/config.h"

/*
 * Checks the file that is named in `arguments', else the file at `path' (-c),
 * else the default one. Returns the exit status.
 */
int check_config_run(const char *path, char *const *arguments);

/* Prints a line about the file to standard error (struct config_report). */
void check_config_print(void *arg, const char *line);

/*
 * Whether a daemon could use the pipe directory. The socket unit of systemd asks before it takes
 * the path of the socket, which would cut off a daemon that has it. Returns the exit status.
 */
int check_directory_run(const struct config *config, char *const *arguments);

#endif
