/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

/* The processors that this thread may run on. Any thread. */

#include <sched.h>
#include <unistd.h>

#include "base.h"

/* All processors of the machine, if they are too many for a cpu_set_t. */
static inline unsigned processors_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0
		       ? (unsigned)CPU_COUNT(&set)
		       : (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

#endif
