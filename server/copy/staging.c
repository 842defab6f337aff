/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pins the staging memory. A worker.
 *
 * Invariant: the server never reads a byte of the staging memory. The driver and the GPU
 * copy it, and it belongs to the client.
 */

#include "staging.h"

#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/quiet.h"

static const struct {
	uint64_t offset, size;
} parts[] = {{0, STAGING_SMALL}, {STAGING_SMALL, STAGING_LARGE}};

static uint8_t *part_bytes(const struct session *session, unsigned part)
{
	return (uint8_t *)shm_raw(session->staging) + parts[part].offset;
}

static CUresult staging_pin(struct session *session, unsigned part)
{
	CUresult result = cuda.cuMemHostRegister_v2(part_bytes(session, part), parts[part].size,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

	session->is_staging_pinned[part] = result == CUDA_SUCCESS;
	return result;
}

/* The driver refuses a copy that crosses from one registration to another. */
CUresult staging_piece(struct session *session, uint64_t offset, uint64_t size, void **ret_piece)
{
	const unsigned part = offset >= STAGING_SMALL;

	if (unlikely(!range_ok(offset - parts[part].offset, size, parts[part].size)))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(!session->is_staging_pinned[part])) {
		CUresult result = staging_pin(session, part);

		if (result != CUDA_SUCCESS)
			return result;
	}
	*ret_piece = (uint8_t *)shm_raw(session->staging) + offset;
	return CUDA_SUCCESS;
}

static void staging_unpin(struct session *session, bool device_lost)
{
	for (unsigned part = 0; part < ARRAY_SIZE(parts); part++) {
		if (session->is_staging_pinned[part] && !device_lost)
			quiet_unpin(session, part_bytes(session, part));
		session->is_staging_pinned[part] = false;
	}
}

const struct session_part staging_part = {.end = staging_unpin};
