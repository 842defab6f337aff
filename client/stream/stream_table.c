/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of streams. The files of this room name streams by their place in it, so it
 * is below all of them.
 */

#include "stream.h"

struct stream streams[STREAMS_MAX];
atomic_uint streams_n_ever = DEVICES_MAX;
_Atomic uint32_t pools_pending;
