/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_DEVICES_H
#define SESSION_DEVICES_H

/*
 * Opens GPUs for a session, and gives back what it does not use of them. An open GPU stays until
 * the session ends. The session's worker only.
 */

#include "session_device.h"

/* The session's part of that GPU. Opens the GPU if needed. */
CUresult session_device_open(
	struct session *session, uint32_t device, struct session_device **ret_sdev);

/*
 * A driver stream without work, for the session's SMs. Sleeps as stream_pool_take() does.
 * Give it back only when it is at rest and has no attribute except this priority; a
 * discarded one ends when it is at rest.
 */
CUresult session_device_take_stream(
	struct session *session, struct session_device *sdev, int32_t priority, CUstream *ret_real);
void session_device_give_stream(struct session_device *sdev, CUstream real, int32_t priority);
void session_device_discard_stream(struct session_device *sdev, CUstream real);

/* Gives back what the session keeps unused. No work of it is on a GPU. */
void session_devices_trim(struct session *session);

#endif
