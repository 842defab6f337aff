/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUARANTINE_H
#define QUARANTINE_H

/*
 * Programs whose clients cause GPU faults, by user. Such a program waits
 * before its next start, longer after each fault. Then it is on probation: its
 * clients have the GPU while no other program has work, so that its next fault
 * meets idle programs (server/schedule/probation.h). A program that faults
 * twice within a minute is quarantined: a server of its own serves it, so that
 * its next fault affects no other program. Loop thread.
 */

#include "base.h"

struct tenant;

/* A client running this program caused a GPU fault, which ended its server. */
void quarantine_note_fault(struct tenant *tenant, uint32_t program);

/* How long a client running this program still has to wait; 0: it need not wait. */
uint64_t quarantine_wait_ms(const struct tenant *tenant, uint32_t program);

/* For how long clients of this program are on probation beside other programs; 0: they are not. */
uint32_t quarantine_probation_ms(const struct tenant *tenant, uint32_t program);

/* Whether the program gets a server of its own. */
bool quarantine_holds(const struct tenant *tenant, uint32_t program);

/* Whether every fault has expired. */
bool quarantine_is_empty(const struct tenant *tenant);

#endif
