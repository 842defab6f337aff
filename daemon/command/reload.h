/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RELOAD_H
#define RELOAD_H

/*
 * Reads the configuration file again while the daemon runs, and applies the whole file, or
 * nothing of a file with an error. Loop thread. Another thread reads the file and finds the
 * names of users in it, because the name service of the system may be slow.
 */

struct daemon;

/* The daemon ends: no further file is read. A thread may still read one. */
void reload_abandon(struct daemon *daemon);

/*
 * SIGHUP: reopens the logs, and applies the file if it has changed, so that a
 * program that moves logs every night undoes no command.
 */
void reload_on_hangup(struct daemon *daemon);

#endif
