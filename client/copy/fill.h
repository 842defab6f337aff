/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILL_H
#define FILL_H

/* Setting memory to a value, on a stream or in a graph node. Any thread. */

#include "client/util/api.h"

struct fill {
	uint64_t dst;
	uint32_t value;
	uint32_t width; /* bytes per element */
	uint64_t count; /* elements per row */
	uint64_t pitch; /* bytes; unused for one row */
	uint64_t rows;
};

/* Whether a fill of at least one element lies in one range of this process. */
CUresult fill_check(const struct fill *fill);

/* `is_sync': not an Async function. */
CUresult fill_post(struct fill fill, CUstream handle, bool is_sync);

#endif
