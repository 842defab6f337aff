/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIORITY_H
#define PRIORITY_H

/*
 * Priorities of clients: 0 normal, 1 below normal, 2 background. The driver knows only
 * priorities of streams, 0 to -5 on most GPUs, where the lower number goes first. So each client
 * priority has a part of that range, and its clients see that part as if it were all:
 * from the driver's least priority on. A driver with fewer than three has fewer parts.
 *
 * Any thread.
 */

#include "device.h"
#include "frame.h"

#define PRIORITY_NORMAL 0
#define PRIORITY_BELOW 1
#define PRIORITY_BACKGROUND 2

/* Of the driver's own, for the streams of a client; `greatest' is the lower number. */
struct priority_range {
	int32_t least, greatest;
};

struct priority_range priority_range(const struct device *device, int32_t client_priority);

/* What the driver is given for a stream to which its program gave `priority'. */
int32_t priority_real(const struct device *device, struct priority_range range, int32_t priority);

/* Of the streams that are made ahead: the least of a normal client's. */
int32_t priority_normal(const struct device *device);

/*
 * Which of its own CUDA_MPS_CLIENT_PRIORITY and what the operator says a client gets: its own,
 * in both directions, but nothing above what the operator has put in the background.
 * False: the variable has another value, which is ignored.
 */
bool priority_choose(const struct frame_variable *own, int32_t of_operator, int32_t *ret_priority);

#endif
