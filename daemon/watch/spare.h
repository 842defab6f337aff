/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPARE_H
#define SPARE_H

/*
 * A spare is a process that has done cuInit() and waits to become the successor of a server with
 * clients (daemon/server/successor.h), so that these do not wait for its start. There is one for
 * each server with clients, where the operator wants it (MPS_SPARE_SERVER).
 *
 * It ends with its server, with the last client, or with the daemon; the next daemon starts
 * another. It is in no list of servers, in no record, and takes no place of a server. One that has
 * ended is replaced after a minute.
 *
 * Loop thread.
 */

struct daemon;

/* WANT_SPARES, and now and then: ends spares that are not needed, and starts those that are. */
void spares_look(struct daemon *daemon);

/* The daemon quits, or its settings for new servers have changed. */
void spares_end(struct daemon *daemon);

#endif
