/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_TIMES_H
#define EVENT_TIMES_H

/*
 * When events were recorded, by the clock of the machine, for events that are made again in another
 * server (server/replay.h). An event of now, the anchor of a GPU, tells the times of others. A
 * worker.
 */

#include "bounds.h"
#include "server/driver/driver.h"

struct event;
struct session;
struct session_device;

/* A session's part: the anchors, by GPU. */
struct event_times {
	CUevent anchors[DEVICES_MAX];
	uint64_t anchors_ns[DEVICES_MAX];
};

/*
 * The nanosecond of the clock at which the event was recorded. Makes the anchor, if it needs one.
 * False: it is not known.
 */
bool event_time(struct session *session, const struct event *event, uint64_t *ret_ns);

/*
 * Makes the anchor of that GPU, if there is none. CUDA_ERROR_NOT_READY: it has not passed within a
 * second.
 */
CUresult event_anchor_make(struct session *session, struct session_device *sdev);

/* The session ends. */
void event_anchors_free(struct session *session, bool device_lost);

#endif
