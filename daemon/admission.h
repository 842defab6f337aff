/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMISSION_H
#define ADMISSION_H

/*
 * How many connections there may be, and which one has to go when there are
 * too many. Loop thread.
 */

#include "base.h"

struct tenant;

/* Connections that all guests may have together, by the limit of descriptors. */
unsigned admission_guests_max(unsigned servers_max);

/* A tenant has got a connection more: closes others, of it or of guests, until limits hold. */
void admission_check(struct tenant *tenant);

/* Whether the tenant may give commands on one connection more. */
bool admission_allows_command_conn(const struct tenant *tenant);

/* ... or may at least wait until it may. */
bool admission_allows_queued(const struct tenant *tenant);

#endif
