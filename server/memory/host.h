/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_H
#define HOST_H

/*
 * Pinned host memory of a session: regions of the host space. Each is a memory that lies at
 * the same address in the client and in the server, so its host pointer is its device
 * pointer. The client makes pages present (they are charged to it), the server pins them.
 * The session's worker only.
 */

#include "server/driver/driver.h"

struct device_quota;
struct session;

/* Whether all these bytes of the host space lie in one chunk that is used and pinned. */
bool host_has(const struct session *session, uint64_t address, uint64_t size);

/* How many of `size' bytes from `address' one copy may take. Any address. */
uint64_t host_cut(uint64_t address, uint64_t size);

/*
 * Whether the client has made these pages present; otherwise they would be charged to the
 * server. Whole pages, at most HOST_PIECE.
 */
bool host_is_present(uint64_t address, uint64_t size);

/* Bytes kept for the next managed memory that `memory' pays for; NULL: all that are kept. */
uint64_t host_unused_of(const struct session *session, const struct device_quota *memory);

/* Gives unused memory back. No work of the session may be on a GPU. */
void host_trim(struct session *session);

#endif
