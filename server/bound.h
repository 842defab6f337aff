/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOUND_H
#define BOUND_H

/*
 * Sessions at their limits. The session's worker only.
 *
 * When the account of a session meets a bound, the session waits for deferred calls, which may
 * refund something, and then logs what it holds, once for each resource.
 */

#include "server/util/resource.h"

struct session;

/* account_owner::on_full of a session. */
bool bound_met(void *session, enum resource resource, uint64_t amount, unsigned round);

/*
 * A message fails with CUDA_ERROR_OUT_OF_MEMORY. If a limit of a GPU's memory is the reason, notes
 * the limit in the page, where the client reads it when its own call fails in the end.
 */
void bound_note_refusal(struct session *session);

#endif
