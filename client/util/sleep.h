/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLEEP_H
#define SLEEP_H

/*
 * Sleeps of application threads inside calls of this library. Any thread.
 *
 * A sleep ends on time: with the thread's normal timer slack it could end 50 us
 * late, to save power. A sleep is not a cancellation point, as nanosleep() is: the
 * thread may hold locks of this library.
 */

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void sleep_ns(uint64_t ns)
{
	const struct timespec length = {
		.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	int slack_ns = prctl(PR_GET_TIMERSLACK, 0L, 0L, 0L, 0L);

	prctl(PR_SET_TIMERSLACK, 1L, 0L, 0L, 0L);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &length, NULL);
	if (slack_ns > 0)
		prctl(PR_SET_TIMERSLACK, (long)slack_ns, 0L, 0L, 0L);
}

#endif
