/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SM_LOADS_H
#define SM_LOADS_H

/*
 * How many clients have each of the groups of SMs that a GPU is divided into, and which
 * groups the next client gets. Independent of the GPU; the caller locks.
 */

#include <stdint.h>

/*
 * Groups of a GPU. A set of groups is one 64-bit number. No GPU has more than 18 at compute
 * capability 9.
 */
#define SM_LOADS_MAX 64u

struct sm_loads {
	unsigned n;
	uint32_t load[SM_LOADS_MAX];
};

/* The first `n' groups. */
uint64_t sm_set_first(unsigned n);

/*
 * The `n' least loaded groups in `within', which contains at least `n': consecutive groups
 * (with wrap-around) if no other choice has a lower load.
 */
uint64_t sm_loads_choose(const struct sm_loads *loads, uint64_t within, unsigned n);

void sm_loads_add(struct sm_loads *loads, uint64_t set);
void sm_loads_remove(struct sm_loads *loads, uint64_t set);

#endif
