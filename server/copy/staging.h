/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAGING_H
#define STAGING_H

/*
 * The staging memory of a session, which the GPU reads and writes. The session's worker, with a
 * context current.
 */

#include "server/driver/driver.h"

struct session;

/*
 * A piece of the staging memory for the driver. Its part is pinned at the first use.
 * CUDA_ERROR_INVALID_VALUE: it does not lie within one part.
 */
CUresult staging_piece(struct session *session, uint64_t offset, uint64_t size, void **ret_piece);

#endif
