/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMISSION_H
#define ADMISSION_H

/*
 * How many connections the daemon keeps, and which connection it closes when
 * there are too many. conn.c asks for it after each new connection. Loop
 * thread.
 */

#include "base.h"

struct account;
struct daemon;
struct tenant;

/* The connections that all guests together may have, given the limit of descriptors. */
unsigned admission_guests_max(unsigned servers_max);

/*
 * A tenant has a new connection: closes connections, of its account or of
 * guests, until limits hold.
 */
void admission_check(struct tenant *tenant);

/* Whether the account may have another connection that gives commands. */
bool admission_allows_command_conn(const struct daemon *daemon, const struct account *account);

/* Whether the account may have another connection that waits to give commands. */
bool admission_allows_queued(const struct account *account);

#endif
