/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RELOAD_H
#define RELOAD_H

/*
 * Reads the configuration file again while the daemon runs. Loop thread, which
 * reads the file, and names of users in it, without a detour: both are the
 * operator's, who has just asked for it.
 */

#include "config_report.h"

struct daemon;

/* Results of reload_run() besides -errno. */
enum {
	RELOAD_UNCHANGED = 1, /* the file is as before; nothing was done or reported */
};

/*
 * Applies the whole file, or with `if_changed' only a file whose text has
 * changed. Reports errors, changes, and what cannot change while the daemon
 * runs. -EINVAL: the file has an error, or cannot be read, and nothing has
 * changed.
 */
int reload_run(struct daemon *daemon, bool if_changed, const struct config_report *report);

/* What to say after -EINVAL, with the path of the file. */
#define RELOAD_REFUSED "nothing has changed, as %.200s has an error: mend it and reload again"

/*
 * SIGHUP: reopens the logs, and applies the file if it has changed, so that a
 * program that moves logs every night undoes no command.
 */
void reload_on_hangup(struct daemon *daemon);

#endif
