/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPACE_H
#define SPACE_H

/*
 * Reclaims memory when it is short: that of the parts of a session (session_part.h), and closing
 * mappings. virtual.c, whose mappings these are, calls this for new ones, so the two files call
 * each other. The session's worker only.
 */

#include "server/share/session_device.h"

/*
 * Call this when attempt number `round' (from 0) to get `size' bytes on that GPU has failed,
 * for lack of memory or by a limit. Reclaims unused memory, first of this session, then of
 * others, because programs believe that it is free. Returns whether to try again, with the
 * GPU current.
 */
bool space_make(
	struct session *session, struct session_device *sdev, uint64_t size, unsigned round);

/*
 * Call this when attempt number `round' of a call in which the driver itself allocates, for code or
 * a graph, has returned `result'. Returns whether to try again: idle sessions have evicted memory,
 * or a borrower has ended.
 */
bool space_make_for_driver(
	struct session *session, struct session_device *sdev, CUresult result, unsigned round);

/* As arena_alloc(), but reclaims memory if needed. */
CUresult space_take(
	struct session *session, struct session_device *sdev, uint64_t size, uint64_t *ret_address);

#endif
