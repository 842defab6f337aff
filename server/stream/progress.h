/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

/*
 * Marks that the GPU could not be asked to write (the driver had no memory):
 * the worker writes them itself. Worker only.
 */

struct session;
struct stream;

/* The stream has come to rest. */
void progress_settle(struct session *session, struct stream *stream);

/* All streams of the session have. */
void progress_settle_all(struct session *session);

#endif
