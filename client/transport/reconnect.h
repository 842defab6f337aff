/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECONNECT_H
#define RECONNECT_H

/*
 * A server that ends (it was killed, or another client's kernel faulted) takes the
 * objects of its clients with it. If the server has not opened a GPU for this
 * process yet, nothing is lost: the next server gets all messages of the process,
 * from the first on, and the program notices only a delay.
 *
 * It and server_link.c call each other: a wait for the server notices its end, and a new
 * connection replaces the memories of the old one. Any thread.
 */

#include <stdatomic.h>

#include "server_link.h"

/* Whether another server may still replace this one. */
static inline bool reconnect_is_possible(const struct server_link *link)
{
	return !atomic_load_explicit(&link->is_used, memory_order_acquire) &&
	       !atomic_load_explicit(&link->is_dead, memory_order_relaxed);
}

/*
 * Sends a frame with its descriptor, before the message to which it belongs. The
 * caller holds server_link::sending and keeps `fd'. A copy of the frame is kept
 * while another server may need it. CUDA_SUCCESS, or the result of every later
 * call.
 */
CUresult reconnect_send_frame(struct server_link *link, const void *frame, int fd);

/* The server has opened a GPU: no other server can replace it any more. */
void reconnect_end(struct server_link *link);

/*
 * Connects to the next server, unless another thread has done so. 0, or -errno:
 * there is no next server.
 */
int reconnect(struct server_link *link);

/*
 * Claims the page and the connection: until reconnect_release(), no other thread replaces them.
 * False: another thread does. Never waits, so any lock may be held.
 */
bool reconnect_try_claim(void);
void reconnect_release(void);

/* For a forked child. */
void reconnect_forget(void);

#endif
