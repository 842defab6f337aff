/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_CONN_H
#define COMMAND_CONN_H

/*
 * A command connection sends text: one command per line, answered in order
 * until the sender closes its side. A connection runs one command at a time;
 * other connections run theirs meanwhile.
 */
struct conn;

/* A new connection sends text. */
void command_conn_read(struct conn *conn);

#endif
