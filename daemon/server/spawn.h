/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAWN_H
#define SPAWN_H

#include "daemon/config/config.h"

/*
 * Stores the path by which the program was started, while the working directory is still the
 * initial one. Raises the priority of the daemon, but not that of its servers: the loop answers
 * commands while processes of users occupy all CPUs. Main thread, before other threads start.
 */
void spawn_init(void);

/* A new mps-server. The caller owns its descriptors. */
struct spawned {
	pid_t pid;
	int pidfd;
	int output; /* its standard output and error; non-blocking */
};

/*
 * Starts `mps-server --uid UID [--gid GID] [--multiuser] [--successor]': the one beside this
 * program or beside the link by which it was started, else the one in PATH. It
 * gets the vendor's name if this program has the vendor's name. The server
 * changes to that user by itself. `gid' may be NULL; `devices' are its GPUs, NULL:
 * those of the daemon. 0 or -errno with an error message.
 */
int spawn_server(const struct config *config, uid_t uid, const gid_t *gid, const char *devices,
	bool is_successor, struct spawned *ret, struct error_message *error);

/* The build of the program that spawn_server() would start (build_id.h); 0: not known. */
uint64_t spawn_server_build(void);

/* Starts `mps-server --devices' in the same way; it stays the daemon's user. */
int spawn_probe(const struct config *config, struct spawned *ret, struct error_message *error);

#endif
