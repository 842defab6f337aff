/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pins the staging memory. A worker.
 *
 * Invariant: the server never reads a byte of the staging memory. The driver and the GPU
 * copy it, and it belongs to the client.
 */

#include "server/session/session.h"
#include "server/session/session_room.h"
#include "server/driver/blocked_streams.h"
#include "staging.h"

CUresult staging_piece(struct session *session, uint64_t offset, uint64_t size, void **ret_piece)
{
	if (unlikely(!range_ok(offset, size, STAGING_SIZE)))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(!session->is_staging_pinned)) {
		CUresult result = cuda.cuMemHostRegister_v2(shm_raw(session->staging), STAGING_SIZE,
			CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

		if (result != CUDA_SUCCESS)
			return result;
		session->is_staging_pinned = true;
	}
	*ret_piece = (uint8_t *)shm_raw(session->staging) + offset;
	return CUDA_SUCCESS;
}

static void staging_unpin(struct session *session, bool device_lost)
{
	if (session->is_staging_pinned && !device_lost)
		exclusive_unpin(session, shm_raw(session->staging));
	session->is_staging_pinned = false;
}

const struct session_room staging_room = {.end = staging_unpin};
