/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOP_TURN_H
#define LOOP_TURN_H

/*
 * Graphs with loops run one after the other on a GPU.
 *
 * Beside kernels, a conditional node of type WHILE can end the context for all clients
 * (driver_facts.h). Turns keep loops apart from each other; loops beside other clients are lone
 * work (quiet.h) as well. server.log says which clients have loops. The launch of a graph with
 * loops waits for the loops of other streams: in the server for loops of other sessions, on the GPU
 * for loops of its own session, because these may wait for what its client sends later. Launches
 * wait in their order.
 *
 * The worker of the session that launches.
 */

#include "server/driver/driver.h"

struct session;
struct stream;

/* On the stack of the launch. */
struct loop_turn {
	struct loop_turn *next;
};

/*
 * Before the launch of a graph with loops on a stream that has begun: waits for its turn. An
 * error means that the turn was not taken, because the session ends, the device is lost, or
 * the driver has refused something. Otherwise the stream has to wait for `ret_before' (NULL:
 * nothing) before the launch, and loop_turn_give() follows.
 */
CUresult loop_turn_take(struct session *session, const struct stream *stream,
	struct loop_turn *turn, CUevent *ret_before);

/* Behind the launch. */
void loop_turn_give(struct session *session, const struct stream *stream, struct loop_turn *turn,
	bool is_launched);

#endif
