/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLEEP_H
#define SLEEP_H

/*
 * Sleeps of the program's threads in calls of ours. Any thread.
 *
 * They end when they should: a thread's timers may otherwise be 50 us late, to
 * save power. And they end no thread that is cancelled, as nanosleep() does: it
 * may hold locks of ours.
 */

#include <stdint.h>

void sleep_ns(uint64_t ns);

#endif
