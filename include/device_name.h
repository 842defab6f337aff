/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_NAME_H
#define DEVICE_NAME_H

/*
 * How people name a GPU: by its ordinal ("0"), its PCI id ("0000:00:06.0", "00000000:00:06.0",
 * "00:06.0", "0000:00.06.00"), its UUID with or without "GPU-", or the beginning of that UUID.
 * Upper and lower case are the same. Any thread.
 */

#include "frame.h"

/* What such a name may have, its NUL included. */
#define DEVICE_NAME_MAX 64

#define DEVICE_NAME_ACCEPTED "an ordinal, a PCI id, a UUID or the beginning of one"

/* Whether `name' could name a GPU on some machine. */
bool device_name_ok(const char *name);

/* Whether `name' names this one. The beginning of a UUID may name others as well. */
bool device_name_matches(const char *name, const struct frame_device *device);

#endif
