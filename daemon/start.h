/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_H
#define START_H

/*
 * Whether a tenant may have a server started now, and the start. Loop thread.
 */

#include "base.h"

struct tenant;

/*
 * Starts a server for those who wait; or they are told why there is none; or
 * the start waits for its turn and tenants_progress() follows.
 */
void start_server_for(struct tenant *tenant);

/*
 * A client that is this program caused a GPU fault, which ended the server: its
 * next start waits, longer after each fault. Other programs do not.
 */
void start_note_fault(struct tenant *tenant, uint32_t program);

/* How long a client that is this program has to wait; 0: no longer. */
uint64_t start_wait_ms(const struct tenant *tenant, uint32_t program);

/* Whether no fault is remembered any more. */
bool start_forgot_faults(const struct tenant *tenant);

/* Restarts after bad ends that still count. */
unsigned start_count_restarts(struct tenant *tenant);

#endif
