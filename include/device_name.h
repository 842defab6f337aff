/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_NAME_H
#define DEVICE_NAME_H

/*
 * The name of a GPU: its ordinal ("0"), its PCI ID ("0000:00:06.0", "00000000:00:06.0",
 * "00:06.0", "0000:00.06.00"), its UUID with or without "GPU-", or the beginning of that UUID.
 * Upper and lower case are the same. Any thread.
 */

#include "frame.h"

/* The size of such a name, with its NUL. */
#define DEVICE_NAME_MAX 64

#define DEVICE_NAME_ACCEPTED "an ordinal, a PCI id, a UUID or the beginning of one"

/* Whether `name' could be the name of a GPU on some machine. */
bool device_name_ok(const char *name);

/* Whether `name' names this GPU. The beginning of a UUID may name other GPUs as well. */
bool device_name_matches(const char *name, const struct frame_device *device);

#endif
