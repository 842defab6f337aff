/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TURN_H
#define TURN_H

/*
 * Turns of processes on a device (SOFTGPU_TURNS=1): kernels of different processes never
 * run at the same time, as on a GPU without MPS. For the threads of streams; without locks.
 */

#include "../driver.h"

/* Waits until no other process runs a kernel on the device. Pair with turn_end(). */
void turn_begin(const struct device *device);
void turn_end(const struct device *device);

#endif
