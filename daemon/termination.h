/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMINATION_H
#define TERMINATION_H

/*
 * Commands that wait until a server has ended the work of all clients of one
 * process. Whatever the server does, each is answered within a deadline; what
 * it has asked for happens also when nobody waits any more. Loop thread.
 */

#include <sys/types.h>

#include "frame.h"

struct conn;
struct server;

/* Asks the server, which has clients of that process; the connection is answered, now or later. */
void termination_begin(struct server *server, struct conn *conn, pid_t pid);

/* The server's connection takes more: asks for what it was not asked for yet. */
void terminations_send(struct server *server);

/* The server has answered. */
void termination_on_answer(struct server *server, const struct frame_terminate *frame);

/* A client of the server has gone. */
void terminations_check(struct server *server);

/* The server's connection has gone: nobody will answer. */
void terminations_fail(struct server *server);

/* The connection has waited for long enough. */
void termination_on_deadline(struct conn *conn);

/* The connection closes; it may wait for none. */
void termination_drop(struct conn *conn);

#endif
