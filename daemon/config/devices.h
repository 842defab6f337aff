/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICES_H
#define DEVICES_H

/*
 * The GPUs of a server, as the server has reported them. The daemon itself
 * never opens CUDA. Loop thread.
 */

#include "device_name.h"
#include "frame.h"

struct devices {
	unsigned n; /* reported so far: ordinals 0 to n - 1 */
	struct frame_device *items;
};

/* Adds a GPU, or replaces one that is reported again. 0, -EBADMSG or -ENOMEM. */
int devices_add(struct devices *devices, const struct frame_device *device);

/* Replaces `devices' by a copy of `from'. 0, or -ENOMEM without a change. */
int devices_copy(struct devices *devices, const struct devices *from);

void devices_fini(struct devices *devices);

/* Finds the GPU of that name: 0, -ENODEV, or -ENOTUNIQ where several UUIDs begin with it. */
int devices_find(
	const struct devices *devices, const char *name, const struct frame_device **ret_device);

/* Whether every GPU of the server has been reported. */
bool devices_are_complete(const struct devices *devices);

/* "0 (0000:00:06.0, GPU-…), 1 (…)", cut to fit. */
void devices_list(const struct devices *devices, char *text, size_t size);

/* "GPU-01234567-89ab-cdef-0123-456789abcdef" */
#define DEVICE_UUID_TEXT 48
void device_uuid_text(const struct frame_device *device, char text[DEVICE_UUID_TEXT]);

#endif
