/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROOM_H
#define ROOM_H

/*
 * What a GPU has of channels and of memory for nodes, which it makes more of when
 * they are all taken: each stream has a channel, and each branch of an executable
 * graph. Making more waits for all that is on the GPU; what is given back is used
 * again. As many as on an H200 with driver 580 (tests/programs/driver_api/driver_waits.c).
 *
 * All under the driver's lock, which waits alone give away.
 */

#include "tests/softgpu/driver/driver.h"

/* Takes so much of it. */
void room_take(struct device *device, size_t n_channels, size_t n_nodes);
void room_leave(struct device *device, size_t n_channels, size_t n_nodes);

#endif
