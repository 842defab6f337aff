/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_H
#define CLIENT_REPORT_H

/*
 * The report with which a server introduces its clients each time it connects: a frame for each
 * client, until the first frame of its state.
 *
 * The user of a server can make it say anything. So the report cannot change what this daemon
 * knows about a client that it has handed over, and a new daemon believes nothing about other
 * users. Loop thread.
 */

#include "frame.h"

struct server;

/* The server has connected. */
void client_report_begin(struct server *server);

/* FRAME_CLIENT_HERE. -EBADMSG or another -errno: the connection has to be closed. */
int client_report_add(struct server *server, const struct frame_client_note *note);

/* The report is complete: clients that were not in it have left. May be called at any time. */
void client_report_end(struct server *server);

#endif
