/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include "error_message.h"

/*
 * Opens a directory that we are to keep files in, made with mode 0755 if it is
 * missing (its parent must be there). Refuses links and directories that
 * belong to neither us nor root. `variable' is the environment variable that
 * chose it, for the reason. Returns a descriptor that the caller owns, or
 * -errno.
 */
int directory_open(const char *path, const char *variable, struct error_message *error);

/*
 * Whether nobody but its owner (and root) can put files into it: 0, or -EPERM
 * with what to do about it.
 */
int directory_check_private(
	int dir, const char *path, const char *variable, struct error_message *error);

/*
 * Opens a regular file in it for appending, made if missing with mode 0644 or
 * (`is_private') 0640, never through a link, never blocking. A private one that
 * is there loses what others may do with it. A descriptor, or -errno.
 */
int directory_open_log(int dir, const char *name, bool is_private);

#endif
