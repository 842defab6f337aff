/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RELEASED_H
#define RELEASED_H

/*
 * A released server is of another version than this daemon, which has found it in the record of the
 * previous one. The server works for its clients until they have ended, and then ends by itself.
 * The daemon knows no more of it than this, and gives it no orders. Loop thread.
 */

#include <sys/types.h>
#include <uv.h>

#include "daemon/text/list.h"

struct daemon;

struct released {
	struct list link; /* in struct daemon */
	pid_t pid;
	uid_t uid;
	int pidfd;
	uv_poll_t end; /* of the process, which frees this */
};

/* Without memory or descriptors, the server is not known from now on. */
void released_add(struct daemon *daemon, pid_t pid, uid_t uid, int pidfd);

/* Forgets all: the daemon ends. */
void released_close(struct daemon *daemon);

#endif
