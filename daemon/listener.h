/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LISTENER_H
#define LISTENER_H

/*
 * The daemon's place in the file system: the lock that makes it the only one,
 * its PID file and the socket where everybody comes in.
 */

#include <uv.h>

#include "config.h"

struct daemon;

struct listener {
	int directory;
	int lock;       /* inherited by nobody */
	bool is_locked; /* by us, as long as we live */
	int fd;
	bool is_bound; /* the socket's name is ours to remove */
	uv_poll_t poll;
	uv_timer_t pause; /* descriptors ran out: accept again a little later */
};

/* Another daemon has the directory: what listener_open() can say besides 0 and -errno. */
enum {
	LISTENER_TAKEN = 1,
};

/*
 * Takes the directory and listens. `fd' is a listening socket that came from
 * the service manager, or negative. With a reason on failure.
 */
int listener_open(struct listener *listener, const struct config *config, int fd,
	struct error_message *error);

/* Accepts from now on. */
int listener_start(struct daemon *daemon);

/* No more connections, and no more files. Handles are closed by the loop. */
void listener_stop(struct daemon *daemon);

/* Removes the socket's name and the PID file. */
void listener_remove_files(const struct listener *listener, const struct config *config);

/* Closes the descriptors, the lock last. */
void listener_close(struct listener *listener);

#endif
