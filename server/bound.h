/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOUND_H
#define BOUND_H

/*
 * What a session does when its account meets a bound: it waits for deferred ends, which may
 * give something back, and then tells the log once what the session holds. The session's
 * worker only.
 */

#include "base.h"

/* Of a session, as account_owner::on_full. */
bool bound_met(void *session, uint64_t amount, unsigned round);

#endif
