/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPEN_SESSION_H
#define OPEN_SESSION_H

/*
 * Setup and teardown of server tests: a session without a thread, over a counting
 * driver with its own memory, that has opened GPU 0.
 */

#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

static int open_session(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	return send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		       limits) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int close_session(void **state)
{
	(void)state;
	harness_close();
	return 0;
}

#endif
