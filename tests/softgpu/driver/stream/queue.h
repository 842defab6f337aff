/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUEUE_H
#define QUEUE_H

/*
 * Hardware queues. A GPU gives a process only a few, so work of one stream can
 * queue behind a wait of another program's stream. As measured on an H200 with driver
 * 580: kernels, copies and fills of an idle stream go to a queue without a wait, if
 * there is one. Writes, waits for semaphores and for events go to the stream's last
 * queue, even behind a wait.
 *
 * CUDA_DEVICE_MAX_CONNECTIONS sets their number, 8 by default. Under the driver's
 * lock.
 */

#include "stream.h"

/* The first queue of a new stream. */
unsigned queue_home(const struct stream *stream);

/*
 * Chooses a queue for new work. Returns whether it is behind `ret_before', another
 * stream's wait; the caller makes the work depend on that.
 */
bool queue_put(struct stream *stream, const struct work *work, struct dependency *ret_before);

/* The work was submitted as `ticket'. If it is a wait for a semaphore, later work is behind it. */
void queue_note(struct stream *stream, const struct work *work, uint64_t ticket);

#endif
