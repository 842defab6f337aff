/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Times of events by the clock of the machine. A worker.
 *
 * Invariant: an anchor has passed. Its time is late by the way from the GPU to this thread: some
 * ten microseconds, which are the error of a time between two events of different servers.
 */

#include "event_times.h"

#include "clock.h"
#include "event.h"
#include "server/session/session.h"
#include "server/schedule/gate.h"
#include "server/share/session_devices.h"

#define NS_A_MS 1000000.0

static CUresult anchor_record(struct session *session, struct session_device *sdev, CUevent anchor)
{
	struct gate_wait wait = gate_wait(GATE_CLOCK, session);
	int32_t priority = session_device_priority(sdev, 0);
	CUstream real;
	CUresult result = session_device_take_stream(session, sdev, priority, &real);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuEventRecord(anchor, real);
	while (result == CUDA_SUCCESS &&
		(result = cuda.cuEventQuery(anchor)) == CUDA_ERROR_NOT_READY && gate_again(&wait))
		result = CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		session_device_give_stream(sdev, real, priority);
	else
		session_device_discard_stream(sdev, real);
	gate_end(&wait);
	return result;
}

CUresult event_anchor_make(struct session *session, struct session_device *sdev)
{
	struct event_times *times = session->event_times;
	const uint32_t device = sdev->device->ordinal;
	CUevent anchor;
	CUresult result = session_device_enter(session, sdev);

	if (result != CUDA_SUCCESS || times->anchors[device])
		return result;
	result = cuda.cuEventCreate(&anchor, CU_EVENT_DEFAULT);
	if (result != CUDA_SUCCESS)
		return result;
	result = anchor_record(session, sdev, anchor);
	if (result != CUDA_SUCCESS) {
		cuda.cuEventDestroy_v2(anchor);
		return result;
	}
	times->anchors[device] = anchor;
	times->anchors_ns[device] = now_ns();
	return CUDA_SUCCESS;
}

bool event_time(struct session *session, const struct event *event, uint64_t *ret_ns)
{
	const struct event_times *times = session->event_times;
	uint32_t device;
	float ms;

	*ret_ns = event->recorded_ns;
	if (!event->real)
		return event->recorded_ns > 0;
	device = event->sdev->device->ordinal;
	/* A graph has made the real event, which may not have been recorded yet. */
	if (event_anchor_make(session, event->sdev) != CUDA_SUCCESS ||
		cuda.cuEventElapsedTime(&ms, event->real, times->anchors[device]) != CUDA_SUCCESS)
		return event->recorded_ns > 0;
	*ret_ns = times->anchors_ns[device] - (uint64_t)(int64_t)((double)ms * NS_A_MS);
	return true;
}

void event_anchors_free(struct session *session, bool device_lost)
{
	struct event_times *times = session->event_times;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (times->anchors[i] && !device_lost)
			cuda.cuEventDestroy_v2(times->anchors[i]);
		times->anchors[i] = NULL;
	}
}
