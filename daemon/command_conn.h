/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_CONN_H
#define COMMAND_CONN_H

/*
 * A command connection is a connection who sends text: commands, a line each, answered in
 * order until he closes his side. One command of his runs at a time; others'
 * run meanwhile.
 *
 * A line of nothing but EOT is answered by EOT: the front end sends it last,
 * and knows from the answer that all before was answered.
 *
 * After a line of nothing but NAK, the first reply to each command that fails
 * is preceded by a line "NAK COMMAND: REPLY" (without the blank). Other connections
 * see the reply alone. A quit that is done is answered by EOT then.
 */

#include "base.h"

struct conn;
struct tenant;

#define COMMAND_EOT '\x04'
#define COMMAND_NAK '\x15'

/* A stranger turns out to send text. */
void command_conn_read(struct conn *conn);

/* For connection.c: what to watch, and what came. */
int command_conn_events(const struct conn *conn);
void command_conn_on_event(struct conn *conn, int events);
void command_conn_on_deadline(struct conn *conn);
void command_conn_on_queued_deadline(struct conn *conn);

/* One of the tenant's has ended: the one that has been queued for longest begins, later. */
void command_conn_begin_next(struct tenant *tenant);

/* A line of the reply, logged too. */
void command_reply(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* The same, and the command has failed: it was refused, or did not do all that was asked. */
void command_fail(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* Text of any size and of one line; the log has its size. It may be NULL, which is nothing. */
void command_reply_text(struct conn *conn, const char *text);

/* The command that it waited for has ended: goes on with the next line, later. */
void command_resume(struct conn *conn);

#endif
