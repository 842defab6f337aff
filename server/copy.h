/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Ends of copies, and copies of plain lines of bytes. The session's worker
 * only, with the stream's context current.
 */

#include "driver.h"

/* An end of a copy: pinned memory and staging are the host's. */
struct end {
	uint64_t address;
	bool is_host;
};

/* Of memory of the client's: in one of its units, or a variable at any address. */
struct end end_of(uint64_t address);

/* Of a piece of the staging memory. */
struct end end_of_piece(const void *piece);

/* Cut where a registration ends: the driver copies within one only. */
CUresult copy_line(struct end dst, struct end src, uint64_t size, CUstream real);

#endif
