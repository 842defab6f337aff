/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_APPLY_H
#define CONFIG_APPLY_H

/*
 * Applies the limits of the configuration file: the defaults, the servers of
 * users, the groups. main() before the loop, then the loop thread.
 */

#include "daemon/config/config_file.h"

struct daemon;

/*
 * Applies the limits of the daemon's configuration file, and reports each
 * change. `old' is the file as it was read before; at the start it is empty.
 */
void config_apply(
	struct daemon *daemon, const struct config_file *old, const struct config_report *report);

/* At the start, after servers of an earlier daemon were adopted: reports to control.log. */
void config_apply_first(struct daemon *daemon);

#endif
