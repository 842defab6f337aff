/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's calls about devices, answered from the facts that the server sent at
 * the handshake. Any thread of the application.
 *
 * Invariant: nothing here sends a message.
 */

#include <string.h>

#include "calls_context.h"
#include "device.h"
#include "lock.h"
#include "visible.h"

CUresult local_cuDeviceGetName(char *name, int len, struct device *device)
{
	size_t size = strnlen(device_facts(device)->name, sizeof(device_facts(device)->name) - 1);

	size = MIN(size, (size_t)len - 1);
	memcpy(name, device_facts(device)->name, size);
	memset(name + size, 0, (size_t)len - size);
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceGetPCIBusId(char *pciBusId, int len, struct device *device)
{
	const char *text = device_facts(device)->pci_bus_id;
	size_t size = strnlen(text, sizeof(device_facts(device)->pci_bus_id) - 1);

	if (size >= (size_t)len)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(pciBusId, text, size);
	pciBusId[size] = '\0';
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	static const unsigned attributes[3] = {
		CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
		CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
		CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
	};
	unsigned pci[3];

	if (!dev || !pciBusId || !visible_parse_pci(pciBusId, pci))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < device_count(); i++) {
		const struct device_facts *facts = device_facts(device_get((CUdevice)i));
		unsigned same = 0;

		for (unsigned k = 0; k < 3; k++)
			same += facts->attribute[attributes[k]] == (int32_t)pci[k];
		if (same == 3) {
			*dev = (CUdevice)i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult local_cuDeviceGetProperties(CUdevprop *prop, struct device *device)
{
	const int32_t *value = device_facts(device)->attribute;

	*prop = (CUdevprop){
		.maxThreadsPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		.maxThreadsDim = {value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X],
			value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
			value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
		.maxGridSize = {value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X],
			value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
			value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
		.sharedMemPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
		.totalConstantMemory = value[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
		.SIMDWidth = value[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
		.memPitch = value[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
		.regsPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
		.clockRate = value[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
		.textureAlign = value[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
	};
	return CUDA_SUCCESS;
}

/*
 * A callback for GPU memory over budget. A client has no such budget in the driver, so callbacks
 * are never called. A handle is valid from its registration until its end.
 */
struct listener {
	struct listener *next;
	const struct device *device;
};

static struct lock listeners_lock = LOCK_INIT(LISTENERS);
static struct listener *listeners;

CUresult local_cuDeviceRegisterAsyncNotification(struct device *device,
	CUasyncCallback callbackFunc, void *userData, CUasyncCallbackHandle *callback)
{
	struct listener *listener = malloc(sizeof(*listener));

	if (!listener)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_hold(&listeners_lock);
	listener->device = device;
	LIST_PUSH(listeners, listener);
	*callback = (CUasyncCallbackHandle)listener;
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceUnregisterAsyncNotification(
	struct device *device, CUasyncCallbackHandle callback)
{
	lock_hold(&listeners_lock);
	for (struct listener **link = &listeners; *link; link = &(*link)->next)
		if ((CUasyncCallbackHandle)*link == callback && (*link)->device == device) {
			struct listener *found = *link;

			*link = found->next;
			free(found);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}
