/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOUND_H
#define BOUND_H

/*
 * What a session does when its account meets a bound: it waits for deferred calls, which may
 * refund something, and then logs once what the session holds. The session's worker only.
 */

#include "base.h"

/* account_owner::on_full of a session. */
bool bound_met(void *session, uint64_t amount, unsigned round);

#endif
