/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Callbacks for GPU memory over budget. Any thread of the application.
 *
 * Invariant: a client has no such budget in the driver, so callbacks are never
 * called. A handle is valid from its registration until its end.
 */

#include "client.h"
#include "device.h"
#include "lock.h"

struct listener {
	struct listener *next;
	CUdevice device;
};

static struct lock listeners_lock = LOCK_INIT(LISTENERS);
static struct listener *listeners;

CUresult local_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
	_unused_ void *userData, CUasyncCallbackHandle *callback)
{
	struct listener *listener;

	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!callbackFunc || !callback)
		return CUDA_ERROR_INVALID_VALUE;
	listener = malloc(sizeof(*listener));
	if (!listener)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&listeners_lock);
	*listener = (struct listener){listeners, device};
	listeners = listener;
	lock_release(&listeners_lock);
	*callback = (CUasyncCallbackHandle)listener;
	return CUDA_SUCCESS;
}

CUresult local_cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
	struct listener *found = NULL;

	lock_take(&listeners_lock);
	for (struct listener **link = &listeners; *link && !found; link = &(*link)->next)
		if ((CUasyncCallbackHandle)*link == callback && (*link)->device == device) {
			found = *link;
			*link = found->next;
			break;
		}
	lock_release(&listeners_lock);
	free(found);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
