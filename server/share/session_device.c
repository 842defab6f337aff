/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds and enters a session's parts of GPUs. A worker.
 */

#include "session_device.h"

#include "server/session/session.h"
#include "do_share.h"

struct session_device *session_device_get(struct session *session, uint32_t device)
{
	return device < DEVICES_MAX ? session->devices[device] : NULL;
}

int32_t session_device_priority(const struct session_device *sdev, int32_t priority)
{
	return priority_real(sdev->device, sdev->priorities, priority);
}

CUresult session_device_enter(struct session *session, struct session_device *sdev)
{
	CUresult result;

	if (likely(session->current == sdev))
		return CUDA_SUCCESS;
	result = cuda.cuCtxSetCurrent(sdev->share.context);
	session->current = result == CUDA_SUCCESS ? sdev : NULL;
	return result;
}

void session_device_enter_any(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i] &&
			session_device_enter(session, session->devices[i]) == CUDA_SUCCESS)
			return;
}

CUresult session_device_get_entered(
	struct session *session, uint32_t device, struct session_device **ret_sdev)
{
	*ret_sdev = session_device_get(session, device);
	return *ret_sdev ? session_device_enter(session, *ret_sdev) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_device_topology(struct session *session, uint32_t device, struct tpc *tpcs,
	uint32_t n_tpcs_max, uint32_t *ret_n_tpcs)
{
	struct session_device *sdev;
	uint8_t *gpcs, *numbers;
	uint32_t n;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = driver_read_topology(&gpcs, &numbers);
	if (result != CUDA_SUCCESS)
		return result;
	n = (uint32_t)sdev->device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] / 2;
	n = gpcs && numbers ? MIN(n, n_tpcs_max) : 0;
	for (uint32_t i = 0; i < n; i++)
		tpcs[i] = (struct tpc){gpcs[i], numbers[i]};
	*ret_n_tpcs = n;
	driver_free_topology(gpcs, numbers);
	return CUDA_SUCCESS;
}
