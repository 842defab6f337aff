/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAWN_H
#define SPAWN_H

#include "config.h"
#include "settings.h"

/*
 * Notes by which path the program was started, while the working directory is
 * still that of its start.
 */
void spawn_init(void);

/* A new mps-server. Its descriptors are the caller's. */
struct spawned {
	pid_t pid;
	int pidfd;
	int output; /* what it writes to standard output and error; non-blocking */
};

/*
 * Starts `mps-server --uid UID [--gid GID] [--multiuser]': the one beside this program or
 * beside the link by which it was started, else the one in PATH. It goes by
 * NVIDIA's name for it if this program does. It still has to become that user by itself. `gid' may
 * be NULL. It is told the settings for its log. 0 or -errno with a reason.
 */
int spawn_server(const struct config *config, uid_t uid, const gid_t *gid,
	const struct settings *settings, struct spawned *ret, struct error_message *error);

/* Starts `mps-server --devices' in the same way; it stays the daemon's user. */
int spawn_probe(const struct config *config, struct spawned *ret, struct error_message *error);

#endif
