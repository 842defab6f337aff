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

void sleep_ns(uint64_t ns);

#endif
