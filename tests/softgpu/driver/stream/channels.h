/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANNELS_H
#define CHANNELS_H

/*
 * A GPU's channels and memory for graph nodes. Each stream and each branch of an
 * executable graph has a channel. When all are in use, the driver adds more, which
 * waits for all work on the GPU; freed ones are reused. The numbers are those of an
 * H200 with driver 580 (tests/programs/driver_api/driver_waits.c).
 *
 * All under the driver's lock, which only the waits release.
 */

#include "tests/softgpu/driver/driver.h"

/* Takes channels and nodes; waits if there are too few. */
void channels_take(struct device *device, size_t n_channels, size_t n_nodes);
void channels_leave(struct device *device, size_t n_channels, size_t n_nodes);

#endif
