/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

/*
 * How this process connects to its server: it connects to the daemon, checks who
 * owns the connection, sends HELLO, and receives WELCOME or the reason of a
 * refusal.
 */

#include "frame.h"
#include "client/util/api.h"

/* Results of handshake() besides 0 and -errno. */
enum {
	HANDSHAKE_NO_DAEMON = 1, /* no daemon listens there */
	HANDSHAKE_DAEMON_DIED,   /* a daemon has died there, and no new one has started */
	HANDSHAKE_UNTRUSTED,     /* the listener is not trusted */
};

struct handshake {
	int sock;
	int fds[FRAME_WELCOME_FDS]; /* ring, staging, page; the caller owns all */
	bool continues;             /* MPS_ON_FAULT=continue, if there was a HELLO */
	CUresult result;            /* on failure: the result of every later call */
	char *why; /* the caller's buffer; on failure: the address and the reason */
	size_t why_size;
};

/*
 * Takes at most WELCOME_MS. If the daemon or the server ends meanwhile, its
 * successor is used; after the death of a daemon a new one is awaited for
 * RESTART_MS. `must_be_there': this process has been connected before; a missing daemon is an
 * error, and the environment is not read again. The caller provides `why'. On failure all
 * descriptors are closed.
 */
int handshake(struct handshake *handshake, bool must_be_there);

/* Closes the descriptors of the memories after they have been mapped. */
void handshake_close_fds(struct handshake *handshake);

#endif
