/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/* Managed memory. Any thread. */

#include "advice.h"
#include "memory.h"

/* Allocates `range->size' bytes for its context and flags; sets its address and adds it to the map.
 */
CUresult managed_new(struct memory_range *range);

/* Frees the advice of a range that ends, if it has any. */
void managed_forget(const struct memory_range *range);

#endif
