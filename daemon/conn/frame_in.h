/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAME_IN_H
#define FRAME_IN_H

/* Frames that a peer sends: each is collected in the connection's buffer. Loop thread. */

#include <stddef.h>

struct conn;

/* Reads until the buffer has `wanted' bytes: 1; 0: more is needed; -EBADMSG, -ECONNRESET, -errno.
 */
int frame_in_fill(struct conn *conn, size_t wanted);

/* As frame_in_fill(), for one whole frame, which has the size of its type. */
int frame_in_read(struct conn *conn);

#endif
