/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAWN_H
#define SPAWN_H

#include "config.h"

/* A new mps-server. Its descriptors are the caller's. */
struct spawned {
	pid_t pid;
	int pidfd;
	int output; /* what it writes to standard output and error; non-blocking */
};

/*
 * Starts `mps-server --uid UID [--gid GID]': the one beside this program, else
 * the one in PATH. It still has to become that user by itself. `gid' may be
 * NULL. 0 or -errno with a reason.
 */
int spawn_server(const struct config *config, uid_t uid, const gid_t *gid, struct spawned *ret,
	struct reason *reason);

#endif
