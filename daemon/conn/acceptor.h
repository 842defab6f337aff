/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

/*
 * A listening socket, and the acceptance of its connections. Loop thread; a socket is made in
 * main(), too.
 */

#include <uv.h>

#include "daemon/text/error_message.h"

struct daemon;

struct acceptor {
	struct daemon *daemon;
	int fd;         /* not owned */
	uint32_t entry; /* of its connections: see conn.h */
	uv_poll_t poll;
	uv_timer_t pause; /* descriptors ran out: accepts again a little later */
};

/*
 * A listening socket at that path, which ends with "/control", fits into an address, and is free or
 * has the socket of a dead daemon. Returns a descriptor, or -errno with an error message.
 */
int acceptor_bind(const char *path, struct error_message *error);

/* From Linux 6.16 on: the kernel refuses descriptors that come with bytes. */
void acceptor_refuse_descriptors(int fd);

/* Accepts from now on. 0 or -errno. */
int acceptor_start(struct acceptor *acceptor, struct daemon *daemon, int fd, uint32_t entry);

/* Accepts no more. `on_closed' (or NULL) is called when the loop has closed the last handle. */
void acceptor_stop(struct acceptor *acceptor, uv_close_cb on_closed);

#endif
