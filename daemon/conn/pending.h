/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENDING_H
#define PENDING_H

/*
 * Commands that wait, for a server, for a file, for the end of the daemon. The file that a command
 * waits for calls these functions, and the functions of the connection's kind (struct conn_ops)
 * carry them out. Loop thread.
 */

#include "daemon/text/list.h"

struct conn;

/* What a command waits for. */
struct pending {
	void (*on_deadline)(struct conn *conn); /* NULL: the command has no deadline */
};

/* The running command waits. timeout_ms 0: no deadline. */
void pending_begin(struct conn *conn, const struct pending *pending, uint64_t timeout_ms);

/*
 * The running command waits, and pending_rerun() will follow. False: there is no memory, so it
 * does not wait.
 */
bool pending_begin_rerun(
	struct conn *conn, const struct pending *pending, const char *command, uint64_t timeout_ms);

/* Runs the commands of the connections on the list again. */
void pending_rerun_all(struct list *waiting);

/* Runs the command again; conn->awaited meanwhile says what the command has waited for. */
void pending_rerun(struct conn *conn);

/* The command is done: the connection takes the next one, a little later. */
void pending_end(struct conn *conn);

/* Add a line to the reply: command_reply() and command_fail(). */
void pending_reply(struct conn *conn, const char *format, ...) _printf_(2, 3);
void pending_fail(struct conn *conn, const char *format, ...) _printf_(2, 3);

#endif
