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
	*listener = (struct listener){listeners, device};
	listeners = listener;
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
