/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_H
#define HOST_H

/*
 * Pinned host memory of a session: regions of the host space, each one memory
 * that lies at the same address in the client and here, so that its host
 * pointer is its device pointer. The client makes pages present (they are
 * charged to it), the server pins them. The session's worker only.
 */

#include "server/driver/driver.h"

struct device_quota;
struct session;
struct session_room;

/* Whether all these bytes, in the host space, lie in one chunk that is used and pinned. */
bool host_has(const struct session *session, uint64_t address, uint64_t size);

/* Bytes from `address' that one copy may take of `size'; any address. */
uint64_t host_cut(uint64_t address, uint64_t size);

/* Whether the client has made these pages present: else they would be charged to us. Whole pages,
 * HOST_PIECE at most. */
bool host_is_present(uint64_t address, uint64_t size);

/* Units of the host space that one session may have: 1 TiB, so that none takes all of it. */
#define HOST_UNITS_MAX 256

/* Those that its regions have. */
uint64_t host_units(const struct session *session);

/* Bytes that are kept for the next managed memory that `memory' pays for. */
uint64_t host_unused_of(const struct session *session, const struct device_quota *memory);

/* Gives back what nobody uses. No work of the session may be on a GPU. */
void host_trim(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room host_room;

#endif
