/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_H
#define COMMAND_H

/*
 * The commands, their arguments, who may give them and what they answer. Loop
 * thread.
 */

#include "base.h"

struct peer;

/*
 * Runs a line (which it changes). The reply is there when it returns, or the
 * peer `is_waiting' and commander_resume() follows.
 */
void command_run(struct peer *peer, char *line);

/* The command that the peer waits for has taken too long. */
void command_on_deadline(struct peer *peer);

struct server;
struct words;

/* The server that the second word names, if the peer may command it; else NULL and it is answered.
 */
struct server *command_find_server(struct peer *peer, const struct words *words);

#endif
