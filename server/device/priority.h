/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIORITY_H
#define PRIORITY_H

/*
 * Priorities of clients: 0 normal, 1 below normal, 2 background. The driver knows only
 * priorities of streams, 0 to -5 on most GPUs, where the lower number goes first. So each
 * client priority has a part of that range. Its clients see that part as the whole range,
 * from the driver's least priority on. With fewer than three driver priorities there are
 * fewer parts.
 *
 * Any thread.
 */

#include "device.h"
#include "frame.h"

#define PRIORITY_NORMAL 0
#define PRIORITY_BELOW 1
#define PRIORITY_BACKGROUND 2

/* Driver priorities for the streams of a client; `greatest' is the lower number. */
struct priority_range {
	int32_t least, greatest;
};

struct priority_range priority_range(const struct device *device, int32_t client_priority);

/* The driver's priority for a stream to which its program gave `priority'. */
int32_t priority_real(const struct device *device, struct priority_range range, int32_t priority);

/* For streams that are made in advance: the least priority of a normal client. */
int32_t priority_normal(const struct device *device);

/*
 * Chooses a client's priority from its CUDA_MPS_CLIENT_PRIORITY and the operator's setting:
 * the client's own, higher or lower, unless the operator has put it in the background.
 * False: the variable has another value, which is ignored.
 */
bool priority_choose(const struct frame_variable *own, int32_t of_operator, int32_t *ret_priority);

#endif
