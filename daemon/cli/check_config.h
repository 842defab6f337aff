/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CONFIG_H
#define CHECK_CONFIG_H

/* mps-control check-config: checks a configuration file without a daemon. main() only. */

#include "base.h"

/*
 * Checks the file that is named in `arguments', else the file at `path' (-c),
 * else the default one. Returns the exit status.
 */
int check_config_run(const char *path, char *const *arguments);

/* Prints a line about the file to standard error (struct config_report). */
void check_config_print(void *arg, const char *line);

#endif
