/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_FRAME_H
#define DEVICE_FRAME_H

/*
 * What the daemon learns about a GPU, from a server or from `mps-server --devices'.
 */

#include "frame.h"

struct device;

/* Any thread, after devices_init(). */
struct frame_device device_frame(const struct device *device);

/*
 * Writes a frame for each GPU to standard output, and errors to standard error. Returns the
 * exit status of the process.
 */
int device_frames_print(void);

#endif
