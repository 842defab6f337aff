/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAGING_H
#define STAGING_H

/*
 * What of a session's shared memory the GPU reads and writes: the words in its
 * page that the GPU writes, and the staging memory. The session's worker, with a context current.
 */

#include "server/driver/driver.h"

struct session;

/* Makes session::timeline, asked and passed behind it, device memory. Once is enough. */
CUresult timeline_pin(struct session *session);

/*
 * A piece of the staging memory for the driver, pinned at its first use.
 * CUDA_ERROR_INVALID_VALUE if it is not within.
 */
CUresult staging_piece(struct session *session, uint64_t offset, uint64_t size, void **ret_piece);

/* Unpins both. */
void staging_unpin(struct session *session, bool is_lost);

#endif
