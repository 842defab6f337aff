/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACE_H
#define PLACE_H

/*
 * What a server process is in its slot: the slot's server, the successor of that one, or its spare
 * (daemon/watch/spare.h). Loop thread.
 */

struct server;

/*
 * A new process, also one of an earlier daemon: the spare of that server, or (NULL) the slot's
 * server, if there is none, or its successor.
 */
void place_take(struct server *server, struct server *spare_of);

/* The spare of the server becomes its successor. */
void place_use_spare(struct server *server);

/* The process has ended, or counts as ended. */
void place_leave(struct server *server);

#endif
