/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

/*
 * How this process meets its server: it connects to the daemon, looks whom the
 * connection belongs to, says HELLO and gets WELCOME, or the reason why not.
 */

#include "client/util/api.h"
#include "frame.h"

/* What handshake() can say besides 0 and -errno. */
enum {
	HANDSHAKE_NOBODY = 1, /* no daemon listens there */
	HANDSHAKE_DEAD,       /* one has died there, and no other has come */
	HANDSHAKE_STRANGER,   /* what is there is not to be trusted */
};

struct handshake {
	int sock;
	int fds[FRAME_WELCOME_FDS]; /* ring, staging, page; the caller owns all */
	CUresult result;            /* for every later call, where it failed */
	char *why;                  /* the caller's: where and what, where it failed */
	size_t why_size;
};

/*
 * Takes at most WELCOME_MS. A daemon or server that ends meanwhile is replaced
 * by its next one; where a daemon has died, a new one is waited for a moment.
 * `must_be_there': that no daemon is there is an error, too. `why' is set by
 * the caller; on failure nothing is open.
 */
int handshake(struct handshake *handshake, bool must_be_there);

/* Those of the memories, which are mapped by then. */
void handshake_close_fds(struct handshake *handshake);

#endif
