/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_H
#define MEMORY_H

/*
 * Memory that is short. The session's worker only.
 */

#include "server/driver/session_device.h"

/*
 * After the `round'th try (from 0) for `size' bytes of memory on that GPU has found none,
 * or has met a limit: what we and then what others keep goes first, as that is memory which
 * a program believes to be free. Whether to try again, with the GPU current.
 */
bool memory_make_room(
	struct session *session, struct session_device *sdev, uint64_t size, unsigned round);

/* As arena_alloc(), with room made for it. */
CUresult memory_take(
	struct session *session, struct session_device *sdev, uint64_t size, uint64_t *ret_address);

#endif
