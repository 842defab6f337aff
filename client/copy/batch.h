/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BATCH_H
#define BATCH_H

/*
 * What batches of copies have in common. Any thread.
 */

#include "client/stream/stream.h"

/* The stream of a batch, which is never the legacy one, and whether it captures. */
CUresult batch_enter(CUstream handle, struct stream **ret_stream, bool *ret_captures);

/* Whether a copy says when its source may be read, and nothing unknown besides. */
bool batch_order_is_known(CUmemcpySrcAccessOrder order, unsigned flags);

#endif
