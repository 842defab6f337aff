/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_H
#define WORKER_H

struct session;

/* The worker's thread: serves the session until it ends, then cleans it up. */
void *worker_run(void *session);

/*
 * Serves what lies in the ring now. 1: something did, 0: nothing did.
 * -EBADMSG: malformed; the log has been told.
 */
int worker_serve(struct session *session);

#endif
