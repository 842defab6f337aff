/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_CONN_H
#define COMMAND_CONN_H

/*
 * A command connection sends text: one command per line, answered in order
 * until the sender closes its side. A connection runs one command at a time;
 * other connections run theirs meanwhile.
 *
 * A line that consists of EOT is answered by EOT: the command line sends it
 * last, and its answer shows that every earlier command was answered.
 *
 * After a line that consists of NAK, the first reply to each command that
 * fails is preceded by a line "NAK COMMAND: REPLY" (without the blank after
 * NAK). Other connections get the reply only. A completed quit is then
 * answered by EOT.
 */

#include "base.h"

struct conn;

#define COMMAND_EOT '\x04'
#define COMMAND_NAK '\x15'

/* A new connection sends text. */
void command_conn_read(struct conn *conn);

/* Adds a line to the reply, and logs it. */
void command_reply(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* The same for a command that failed: it was refused, or was not done completely. */
void command_fail(struct conn *conn, const char *format, ...) _printf_(2, 3);

/*
 * Adds one line of any size to the reply; the log gets its size. `text' may be
 * NULL: nothing is added.
 */
void command_reply_text(struct conn *conn, const char *text);

/*
 * The command that the connection waited for has ended: continues with the
 * next line, a little later.
 */
void command_resume(struct conn *conn);

#endif
