/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPGRADE_H
#define UPGRADE_H

/*
 * After an upgrade the next daemon adopts servers of the previous build. With MPS_MOVE_ON_UPGRADE
 * it restarts each of them once (successor.h), so that their clients go on in a server of the
 * installed build. One after another: each restart starts a process.
 *
 * If the clients stay, the daemon tries again later: when the client that could not move has ended,
 * or after a pause, which doubles each time. Servers of another version do not understand this
 * daemon, and stay with their clients (released.h).
 *
 * Loop thread.
 */

#include "base.h"

struct daemon;
struct server;

/* WANT_UPGRADES, and now and then: restarts a server that is due, unless another one moves. */
void upgrades_look(struct daemon *daemon);

/* The server has connected: logs if it is of an earlier build. */
void upgrade_note(struct server *server);

/* Whether the server is of an earlier build than the one that the daemon starts. */
bool upgrade_is_wanted(const struct server *server);

#endif
