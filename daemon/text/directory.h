/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include <limits.h>

#include "error_message.h"

/*
 * Opens a directory for files of the daemon, and creates it with mode 0755 if
 * it is missing (its parent must exist). Refuses links, and directories that
 * belong to neither the daemon's user nor root. `variable' is the environment
 * variable that chose it, for the error message. Returns a descriptor that the
 * caller owns, or -errno.
 */
int directory_open(const char *path, const char *variable, struct error_message *error);

/*
 * Whether only its owner (and root) can create files in it: 0, or -EPERM with
 * an error message that says what to do.
 */
int directory_check_private(
	int dir, const char *path, const char *variable, struct error_message *error);

/*
 * Opens a regular file in it for appending, and creates it with mode 0644 or
 * (`is_private') 0640 if it is missing. Never follows a link, never blocks.
 * Removes the permissions of others from an existing private file. Returns a
 * descriptor, or -errno.
 */
int directory_open_log(int dir, const char *name, bool is_private);

/* The directory of this program's file, links resolved; "" if it is not known. */
void directory_own(char path[PATH_MAX]);

/*
 * The first file that exists of these, which are named from this program's directory, up to NULL.
 * False: `path' is where the first one would be.
 */
bool directory_find_beside(const char *const *names, char path[PATH_MAX]);

#endif
