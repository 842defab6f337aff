/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_REPLY_H
#define COMMAND_REPLY_H

/*
 * Replies to commands. They go out when the command is done, or waits. Loop thread.
 *
 * A line that consists of EOT is answered by EOT: the command line sends it
 * last, and its answer shows that every earlier command was answered.
 *
 * After a line that consists of NAK, the first reply to each command that
 * fails is preceded by a line "NAK COMMAND: REPLY" (without the blank after
 * NAK), and notes are lines that begin with SYN. Other connections get the
 * replies only. A completed quit is then answered by EOT.
 */

#include <stdarg.h>

#include "base.h"
#include "daemon/ask/control_socket.h"

struct conn;

/* Adds a line to the reply, and logs it. */
void command_reply(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* The same for a command that failed: it was refused, or was not done completely. False. */
bool command_fail(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* A line for the person who gives the command: scripts that read the reply do not get it. */
void command_note(struct conn *conn, const char *format, ...) _printf_(2, 3);

/*
 * Adds one line of any size to the reply; the log gets its size. `text' may be
 * NULL: nothing is added.
 */
void command_reply_text(struct conn *conn, const char *text);

/* As command_reply() or command_fail(). */
void command_reply_line(struct conn *conn, bool is_failure, const char *format, va_list args);

void command_reply_eot(struct conn *conn);

/* Sends what the socket takes. May close the connection. */
void command_reply_flush(struct conn *conn);

#endif
