/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMINATE_H
#define TERMINATE_H

/*
 * The operator ends the work of a client whose process continues: from then on each of its
 * calls fails, and what it has in the driver is given back.
 *
 * Loop thread.
 */

#include "base.h"

struct server;

/*
 * Ends the work of the client with this ID of the daemon. The daemon gets an answer, now or
 * later.
 */
void terminate_client(struct server *server, uint64_t id);

/* Answers the daemon with a CUresult. */
void terminate_answer(struct server *server, uint64_t id, uint32_t result);

/* This process ends at once, and with it everything of all terminated clients. */
void terminate_answer_all(struct server *server);

#endif
