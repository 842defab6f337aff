/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

/*
 * Seqnos in a stream's timeline. If the GPU cannot write one, because the driver had no
 * memory, the worker does. Worker only.
 */

#include "server/driver/driver.h"

struct session;
struct stream;

/* The GPU writes the seqno behind the stream's work. Without a stream, the worker writes it now. */
CUresult progress_write(struct session *session, uint32_t stream, uint64_t value);

/* The stream is at rest. */
void progress_settle(struct session *session, struct stream *stream);

/* All streams of the session are at rest. */
void progress_settle_all(struct session *session);

#endif
