/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMINATION_H
#define TERMINATION_H

/*
 * Commands that wait until a server has ended the work of all clients of one
 * process. Each command is answered within a deadline, whatever the server
 * does. The server carries out the request even if the command no longer
 * waits. Loop thread.
 */

#include <sys/types.h>

#include "frame.h"
#include "daemon/server/server_watch.h"

struct conn;
struct server;

/* Asks the server, which has clients of that process; answers the connection now or later. */
void termination_begin(struct server *server, struct conn *conn, pid_t pid);

/* Asks the server to end the work of its clients in that group. WANT_PROGRESS follows each end. */
void termination_of_group(struct server *server, uint32_t group);

/* How long the daemon waits for the end of a client's work. */
uint64_t termination_bound_ms(const struct server *server);

/* The server has answered. */
void termination_on_answer(struct server *server, const struct frame_terminate *frame);

extern const struct server_watch terminations_watch;

#endif
