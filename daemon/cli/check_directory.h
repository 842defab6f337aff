/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_DIRECTORY_H
#define CHECK_DIRECTORY_H

/*
 * mps-control check-directory: whether a daemon could use the pipe directory.
 * The socket unit of systemd asks before it takes the path of the socket, which
 * would cut off a daemon that has it. main() only.
 */

#include "daemon/config/config.h"

/* Returns the exit status. */
int check_directory_run(const struct config *config, char *const *arguments);

#endif
