/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMINATE_H
#define TERMINATE_H

/*
 * The operator ends the work of a client whose process goes on: each of its
 * calls fails from then on, and what it has in the driver is given back.
 *
 * Loop thread.
 */

#include "base.h"

struct server;

/* Ends the work of the client with the daemon's id; the daemon is answered, now or later. */
void terminate_client(struct server *server, uint64_t id);

/* Answers the daemon with a CUresult. */
void terminate_answer(struct server *server, uint64_t id, uint32_t result);

/* This process ends at once, and with it what all terminated clients have. */
void terminate_answer_all(struct server *server);

#endif
