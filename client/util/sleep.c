/* SPDX-License-Identifier: Apache-2.0 */

#include "sleep.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sleep_ns(uint64_t ns)
{
	const struct timespec length = {
		.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	int slack_ns = prctl(PR_GET_TIMERSLACK);

	prctl(PR_SET_TIMERSLACK, 1);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &length, NULL);
	if (slack_ns > 0)
		prctl(PR_SET_TIMERSLACK, slack_ns);
}
