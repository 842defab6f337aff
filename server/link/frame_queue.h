/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAME_QUEUE_H
#define FRAME_QUEUE_H

/*
 * Frames for the daemon that its socket did not take yet, in their order. Loop thread.
 *
 * The number of sessions bounds the queue, because daemon_link.c reads no order of the daemon while
 * frames wait. So the queue has the answer to one order at most, which is a frame or two for each
 * session, and what each session reports once without an order.
 */

#include "base.h"

struct frame_queue {
	uint8_t *bytes; /* NULL: every frame was sent */
	size_t size, space;
	size_t n_sent;
};

/*
 * Sends a frame without a descriptor, or keeps what the socket does not take. 0, -ENOMEM, or
 * -errno of the socket; after an error the connection is unusable.
 */
int frame_queue_send(struct frame_queue *queue, int sock, const void *frame);

/* Sends what the socket takes now. 0 or -errno. */
int frame_queue_flush(struct frame_queue *queue, int sock);

static inline bool frame_queue_is_empty(const struct frame_queue *queue)
{
	return !queue->bytes;
}

/* Forgets all frames. The queue can be used again. */
void frame_queue_clear(struct frame_queue *queue);

#endif
