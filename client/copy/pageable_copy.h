/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGEABLE_COPY_H
#define PAGEABLE_COPY_H

/*
 * Copies of pageable memory by way of the staging memory, with threads of ours
 * where they are large. Any thread of the application.
 */

#include "client/stream/stream.h"

/* From so many bytes on threads of ours help. */
#define PAGEABLE_COPY_SHARED_MIN (1u << 20)

/*
 * Between pageable memory and the device; the order of its parts is nobody's
 * business. To the device: the bytes lie in the staging memory. From it: they
 * are there.
 */
CUresult pageable_copy(
	struct stream *stream, uint64_t device, uint8_t *host, uint64_t size, bool is_in);

#endif
