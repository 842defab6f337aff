/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_H
#define HOST_H

/*
 * Pinned host memory of a session: regions of the host space, each one memory
 * that lies at the same address in the client and here, so that its host
 * pointer is its device pointer. The client makes pages present (they are
 * charged to it), the server pins them. The session's worker only.
 */

#include "driver.h"

struct session;

/* Whether all these bytes, in the host space, lie in one chunk that is used and pinned. */
bool host_has(const struct session *session, uint64_t address, uint64_t size);

/* Bytes from `address' that one copy may take of `size'; any address. */
uint64_t host_cut(uint64_t address, uint64_t size);

/* Gives back what nobody uses. No work of the session may be on a GPU. */
void host_trim(struct session *session);

/* Gives everything back. */
void host_fini(struct session *session, bool is_lost);

#endif
