/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LISTENER_H
#define LISTENER_H

/*
 * The daemon's files in the pipe directory: the lock that makes it the only
 * daemon, its PID file and the control socket.
 */

#include "acceptor.h"
#include "daemon/config/config.h"

struct daemon;

struct listener {
	int directory;
	int lock;       /* not inherited */
	bool is_locked; /* by this daemon, until it exits */
	int fd;
	bool is_bound; /* this daemon removes the socket */
	struct acceptor acceptor;
};

/* Another daemon has the directory: a result of listener_open() besides 0 and -errno. */
enum {
	LISTENER_TAKEN = 1,
};

/*
 * Locks the directory and listens. `fd' is a listening socket from the service
 * manager, or negative. -errno comes with an error message.
 */
int listener_open(struct listener *listener, const struct config *config, int fd,
	struct error_message *error);

/*
 * Whether listener_open() could lock the directory and make the socket: 0,
 * LISTENER_TAKEN, or -errno with an error message.
 */
int listener_check(const struct config *config, struct error_message *error);

/* Accepts from now on. */
int listener_start(struct daemon *daemon);

/* Stops accepting and removes the files. The loop closes the handles. */
void listener_stop(struct daemon *daemon);

/* Removes the socket and the PID file. */
void listener_remove_files(const struct listener *listener, const struct config *config);

/* Closes the descriptors, the lock last. */
void listener_close(struct listener *listener);

#endif
