/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns of processes on a device.
 *
 * Invariant: a process holds the lock of the device's file while it runs a kernel. It
 * gives the lock back when it runs none, so a process whose kernels overlap without a gap
 * keeps the device.
 */

#include "turn.h"

#include <sys/file.h>
#include <unistd.h>

#include "../../softgpu.h"

/* Long enough for a process that waits for the lock to get it. */
#define GAP_US 200

struct turn {
	int fd; /* 0: not opened yet */
	unsigned n_running;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct turn turns[DEVICES_MAX];

void turn_begin(const struct device *device)
{
	struct turn *turn = &turns[device->ordinal];

	if (!driver.takes_turns)
		return;
	pthread_mutex_lock(&lock);
	if (turn->fd == 0)
		turn->fd = device_lock_open(device, "turn");
	if (turn->n_running++ == 0 && turn->fd > 0)
		flock(turn->fd, LOCK_EX);
	pthread_mutex_unlock(&lock);
}

void turn_end(const struct device *device)
{
	struct turn *turn = &turns[device->ordinal];
	bool is_last;

	if (!driver.takes_turns)
		return;
	pthread_mutex_lock(&lock);
	is_last = --turn->n_running == 0;
	if (is_last && turn->fd > 0)
		flock(turn->fd, LOCK_UN);
	pthread_mutex_unlock(&lock);
	if (is_last)
		usleep(GAP_US);
}
