/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

struct conn;

/* A new connection begins with a frame: reads the rest, and makes a client or a server of it. */
void handshake_read(struct conn *conn);

#endif
