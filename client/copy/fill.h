/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILL_H
#define FILL_H

/*
 * Memory that is set to a value, in a stream or by a node of a graph. Any thread.
 */

#include "client/util/api.h"

struct fill {
	uint64_t dst;
	uint32_t value;
	uint32_t width; /* bytes of an element */
	uint64_t count; /* elements of a row */
	uint64_t pitch; /* bytes; of no meaning for one row */
	uint64_t rows;
};

/* Of at least one element: whether it lies in one range of this process's own. */
CUresult fill_check(struct fill *fill);

#endif
