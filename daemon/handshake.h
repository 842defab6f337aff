/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INTRODUCTION_H
#define INTRODUCTION_H

struct peer;

/* A stranger's connection begins with a frame: reads on, and makes a client or a server of it. */
void introduction_read(struct peer *peer);

/*
 * Collects one frame in the peer's buffer. 1: it is whole and of the size that
 * its type has. 0: more is needed. -EBADMSG, -ECONNRESET, -errno.
 */
int introduction_read_frame(struct peer *peer);

#endif
