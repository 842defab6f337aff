/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLOCK_H
#define CLOCK_H

/* The clock of all deadlines and durations: CLOCK_MONOTONIC. Any thread. */

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

#endif
