/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKGROUND_SESSION_H
#define BACKGROUND_SESSION_H

/*
 * Setup and teardown of server tests: the harness's session is a background session, over the
 * counting driver. A foreground session has work on the GPU, or not.
 */

#include <time.h>
#include <unistd.h>

#include "server/session/at_work.h"
#include "server/session/session_part.h"
#include "server/device/priority.h"
#include "server/schedule/classes.h"
#include "server/schedule/elastic.h"
#include "server/share/green.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

static struct session *foreground;

static void foreground_has_work(bool has_work)
{
	atomic_store(&foreground->has_work, has_work);
	at_work_mark(foreground, 0, has_work ? MARK_WORK : 0);
	/* The time that the foreground counts as being at work after its work. */
	if (!has_work)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static int open_both(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	int fds[FRAME_WELCOME_FDS];
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	elastic_init();
	harness_open(false);
	harness.session->limits.priority = PRIORITY_BACKGROUND;
	if (send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		    limits) != CUDA_SUCCESS ||
		session_new(2, NULL, NULL, &foreground, fds) != 0)
		return -1;
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		close(fds[i]);
	atomic_store(&foreground->granted, 1);
	if (classes_join(foreground) != CLASS_FOREGROUND)
		return -1;
	foreground_has_work(true);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	classes_part.end(foreground, false);
	session_free(foreground);
	harness_close();
	return fake_counts.greens == (int)greens_kept() ? 0 : -1;
}

#endif
