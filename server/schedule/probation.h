/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBATION_H
#define PROBATION_H

/*
 * Probation: a program that has caused a GPU fault gives the GPUs work while no other program has
 * work there, so that its next fault meets idle neighbours. The daemon says for how long
 * (daemon/state/quarantine.h). probation_turn.h has the rules.
 *
 * Sessions of one program share its turn, because their kernels may wait for each other.
 *
 * Any worker.
 */

#include <stdbool.h>
#include <stdint.h>

struct device;
struct session;

/* Before the session has work: it is on probation for that time. */
void probation_set(struct session *session, uint32_t ms);

/* For how long it still is; 0: it is not. */
uint32_t probation_left_ms(const struct session *session);

/*
 * Worker, before new work for the GPU, and while a reason of launching.h exists: whether it has to
 * look again, because of the turn of another program. If it does not look again,
 * probation_end_hold() follows.
 */
bool probation_holds(struct session *session, struct device *device);
void probation_end_hold(struct session *session);

/* The same of a session that may be on probation itself: it waits for its turn since then. */
bool probation_has_no_turn(struct session *session, struct device *device, uint64_t since_ns);

/* Worker that waits no more for its turn. */
void probation_give_up(struct session *session, struct device *device);

#endif
