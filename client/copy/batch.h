/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BATCH_H
#define BATCH_H

/* Functions that batches of copies share. Any thread. */

#include "client/stream/stream.h"

/* The stream of a batch, never the legacy NULL stream, and whether it captures. */
CUresult batch_enter(CUstream handle, struct stream **ret_stream, bool *ret_captures);

/* Whether the order says when the copy's source may be read, and no unknown flags are set. */
bool batch_order_is_known(CUmemcpySrcAccessOrder order, unsigned flags);

#endif
