/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECONNECT_H
#define RECONNECT_H

/*
 * A server that goes (it was killed, or another client's kernel faulted) takes
 * with it what it has of its clients. A process for which it has not opened a
 * GPU yet has nothing there: the next server gets the process's messages, from
 * the first one on, and the program notices nothing but time.
 *
 * Any thread.
 */

#include "server_link.h"

/* Whether the server may still be exchanged for another. */
static inline bool reconnect_is_possible(const struct server_link *link)
{
	return !__atomic_load_n(&link->is_used, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&link->is_dead, __ATOMIC_RELAXED);
}

/*
 * Sends a frame with its descriptor before the message that it belongs to;
 * the caller holds server_link::sending. Keeps a copy while another server might need
 * it. The caller keeps `fd'. CUDA_SUCCESS, or what every call fails with.
 */
CUresult reconnect_send_frame(struct server_link *link, const void *frame, int fd);

/* The server has opened a GPU: from now on it is the only one. */
void reconnect_end(struct server_link *link);

/* Meets the next server, unless another thread has done so. 0 or -errno: there is none. */
int reconnect(struct server_link *link);

/* In a forked child. */
void reconnect_forget(void);

#endif
