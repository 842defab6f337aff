/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GPUs that servers have reported. Loop thread.
 *
 * Invariant: every text in here ends with its NUL.
 */

#include "devices.h"

#include <stdio.h>
#include <string.h>

static bool is_device_well_formed(const struct frame_device *device)
{
	return device->n_devices <= DEVICES_MAX && device->ordinal < device->n_devices &&
	       device->compute_mode >= 0 && device->n_chunks <= 64 &&
	       (uint64_t)device->n_chunks * device->sm_chunk <= device->n_sms &&
	       frame_text_ok(device->pci_bus_id, sizeof(device->pci_bus_id)) &&
	       frame_text_ok(device->name, sizeof(device->name));
}

int devices_add(struct devices *devices, const struct frame_device *device)
{
	struct frame_device *items;

	/* Servers report them in the order of their ordinals, to each daemon anew. */
	if (!is_device_well_formed(device) || device->ordinal > devices->n)
		return -EBADMSG;
	if (device->ordinal == devices->n) {
		items = reallocarray(devices->items, devices->n + 1, sizeof(*items));
		if (!items)
			return -ENOMEM;
		devices->items = items;
		devices->n++;
	}
	devices->items[device->ordinal] = *device;
	return 0;
}

int devices_copy(struct devices *devices, const struct devices *from)
{
	struct frame_device *items = NULL;

	if (from->n > 0) {
		items = reallocarray(NULL, from->n, sizeof(*items));
		if (!items)
			return -ENOMEM;
		memcpy(items, from->items, from->n * sizeof(*items));
	}
	devices_fini(devices);
	*devices = (struct devices){.n = from->n, .items = items};
	return 0;
}

void devices_fini(struct devices *devices)
{
	free(devices->items);
	*devices = (struct devices){0};
}

void device_uuid_text(const struct frame_device *device, char text[DEVICE_UUID_TEXT])
{
	const uint8_t *u = device->uuid;

	snprintf(text, DEVICE_UUID_TEXT,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		u[14], u[15]);
}

int devices_find(
	const struct devices *devices, const char *name, const struct frame_device **ret_device)
{
	const struct frame_device *found = NULL;

	for (unsigned i = 0; i < devices->n; i++) {
		if (!device_name_matches(name, &devices->items[i]))
			continue;
		if (found)
			return -ENOTUNIQ;
		found = &devices->items[i];
	}
	if (!found)
		return -ENODEV;
	*ret_device = found;
	return 0;
}

bool devices_are_complete(const struct devices *devices)
{
	return devices->n > 0 && devices->items[devices->n - 1].n_devices == devices->n;
}

void devices_list(const struct devices *devices, char *text, size_t size)
{
	char uuid[DEVICE_UUID_TEXT];
	size_t used = 0;

	*text = '\0';
	for (unsigned i = 0; i < devices->n && used < size; i++) {
		const struct frame_device *device = &devices->items[i];

		device_uuid_text(device, uuid);
		used += (size_t)snprintf(text + used, size - used, "%s%u (%s, %s)",
			i > 0 ? ", " : "", device->ordinal, device->pci_bus_id, uuid);
	}
}
