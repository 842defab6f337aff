/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills the frame that describes a GPU to the daemon. Any thread. `--devices' prints in a
 * process of its own, which has no other thread.
 */

#include "device_frame.h"

#include <stdio.h>
#include <string.h>

#include "server/util/log.h"
#include "server/device/device.h"

/* The compute mode may have changed since the facts were read. */
static int32_t compute_mode(const struct device *device)
{
	int value = 0;

	if (cuda.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device->handle) !=
		CUDA_SUCCESS)
		return CU_COMPUTEMODE_DEFAULT;
	return value;
}

struct frame_device device_frame(const struct device *device)
{
	const struct device_facts *facts = &device->facts;
	struct frame_device frame = {0};

	frame_init(&frame, FRAME_DEVICE, 0);
	frame.ordinal = device->ordinal;
	frame.n_devices = devices_count();
	frame.compute_mode = compute_mode(device);
	frame.n_sms = (uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
	frame.sm_chunk = facts->sm_group;
	frame.n_chunks = facts->n_sm_groups;
	frame.compute_capability =
		10u * (uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] +
		(uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
	frame.total_memory = facts->total_memory;
	memcpy(frame.uuid, facts->uuid, sizeof(frame.uuid));
	snprintf(frame.pci_bus_id, sizeof(frame.pci_bus_id), "%s", facts->pci_bus_id);
	snprintf(frame.name, sizeof(frame.name), "%.255s", facts->name);
	return frame;
}

int device_frames_print(void)
{
	CUresult result;

	if (driver_open() < 0)
		return 1;
	result = devices_init();
	if (result != CUDA_SUCCESS) {
		log_line("cuInit failed: %s (%d)", result_name(result), (int)result);
		return 1;
	}
	for (uint32_t i = 0; i < devices_count(); i++) {
		struct frame_device frame = device_frame(device_get(i));

		/* Less than the atomic size of a pipe write, so no line can come between. */
		if (write(STDOUT_FILENO, &frame, sizeof(frame)) != (ssize_t)sizeof(frame))
			return 1;
	}
	return 0;
}
