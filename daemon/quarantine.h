/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUARANTINE_H
#define QUARANTINE_H

/*
 * Programs whose clients cause GPU faults, of each user. Such a program waits
 * before its next start, longer after each fault. A program that faults twice
 * within a minute is quarantined: it is served by a server of its own, so that
 * its next fault hurts no other program. Loop thread.
 */

#include "base.h"

struct tenant;

/* A client that is this program caused a GPU fault, which ended its server. */
void quarantine_note_fault(struct tenant *tenant, uint32_t program);

/* How long a client that is this program has to wait; 0: no longer. */
uint64_t quarantine_wait_ms(const struct tenant *tenant, uint32_t program);

/* Whether it gets a server of its own. */
bool quarantine_holds(const struct tenant *tenant, uint32_t program);

/* Whether no fault is remembered any more. */
bool quarantine_is_empty(const struct tenant *tenant);

#endif
