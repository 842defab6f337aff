/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEABLE_COPY_H
#define PAGEABLE_COPY_H

/*
 * Copies of pageable memory through the staging memory; helper threads take part in
 * large copies. Any thread of the application.
 */

#include "client/stream/stream.h"

/* From this size on helper threads take part. */
#define PAGEABLE_COPY_SHARED_MIN (1u << 20)

/*
 * Copies between pageable memory and the device; its parts may be copied in any
 * order. To the device: the bytes are in staging when it returns. From the device:
 * they have arrived.
 */
CUresult pageable_copy(
	struct stream *stream, uint64_t device, uint8_t *host, uint64_t size, bool is_in);

#endif
