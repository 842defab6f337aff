/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_FRAME_H
#define DEVICE_FRAME_H

/*
 * What the daemon is told of a GPU: by a server, or by `mps-server --devices'.
 */

#include "frame.h"

struct device;

/* Any thread, after devices_init(). */
struct frame_device device_frame(const struct device *device);

/*
 * Writes a frame for each GPU to standard output, and what went wrong to
 * standard error. Returns the process's exit status.
 */
int device_frames_print(void);

#endif
