/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_H
#define HOST_H

/*
 * Pinned memory: host memory at the address that it has for the GPU. The
 * server gives out addresses and pins; the pages are made present here, so
 * that they are charged to this process. Any thread.
 */

#include "memory.h"

/* Allocates and notes `range->size' bytes for its context, kind and flags; sets its address. */
CUresult host_new(struct memory_range *range);

#endif
