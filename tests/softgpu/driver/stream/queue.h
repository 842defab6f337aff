/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUEUE_H
#define QUEUE_H

/*
 * Hardware queues, of which a GPU gives a process few: work of one stream can
 * stand behind what a stranger's stream waits for. As measured on an H200 with
 * driver 580: kernels, copies and fills of a stream at rest go to a queue where
 * nothing stands, as long as there is one; writes, waits for words and for
 * events go where the stream was last, whoever stands there now.
 *
 * CUDA_DEVICE_MAX_CONNECTIONS says how many there are, 8 if it is not set.
 * Under the driver's lock.
 */

#include "stream.h"

/* Where a new stream starts. */
unsigned queue_home(const struct stream *stream);

/*
 * Puts work that is to be submitted into a queue. Returns whether it stands
 * behind `ret_before', another stream's wait; the caller makes it depend on that.
 */
bool queue_put(struct stream *stream, const struct work *work, struct dependency *ret_before);

/* The work was submitted as `ticket': if it waits for a word, others stand behind it now. */
void queue_note(struct stream *stream, const struct work *work, uint64_t ticket);

#endif
