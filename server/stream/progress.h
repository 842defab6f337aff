/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

/*
 * Seqnos that the GPU cannot write, because the driver had no memory: the worker writes
 * them. Worker only.
 */

struct session;
struct stream;

/* The stream is at rest. */
void progress_settle(struct session *session, struct stream *stream);

/* All streams of the session are at rest. */
void progress_settle_all(struct session *session);

#endif
