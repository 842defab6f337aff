/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "daemon/config/config.h"

/*
 * Executes mps-top, which is beside this program. `command' is "top" and its arguments. Returns
 * only if that fails: the exit status of the program.
 */
int cli_top_run(const struct config *config, char *const *command);

#endif
