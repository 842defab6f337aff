/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTS_H
#define COUNTS_H

/* What a client has done, or what several clients have done together. Any thread. */

#include <stdint.h>

#include "bounds.h"
#include "counters.h"

struct counts {
	uint64_t counters[COUNTERS];
	uint64_t memory[DEVICES_MAX];      /* bytes, by the server's ordinals */
	uint64_t memory_peak[DEVICES_MAX]; /* bytes */
	uint32_t share_sms[DEVICES_MAX];   /* as in struct frame_counters */
	uint32_t slowdown[DEVICES_MAX];
	uint64_t away[DEVICES_MAX]; /* bytes of `memory' that are not on the GPU */
	uint32_t stay;              /* enum eviction_stay */
};

/* Adds counters only. */
static inline void counts_add(struct counts *sum, const struct counts *counts)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		sum->counters[i] += counts->counters[i];
}

#endif
