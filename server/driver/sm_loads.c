/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chooses SMs for clients. Any thread, under the lock of the caller.
 *
 * Invariant: the load of a group is the number of sets that contain it and were added but
 * not removed.
 */

#include "sm_loads.h"

#include <assert.h>
#include <stdbool.h>

/*
 * How much a set would share with others: the highest load of a group, then the sum of all
 * loads.
 */
struct burden {
	uint32_t most;
	uint64_t sum;
};

static bool is_less(struct burden one, struct burden other)
{
	return one.most != other.most ? one.most < other.most : one.sum < other.sum;
}

static struct burden burden_of(const struct sm_loads *loads, uint64_t set)
{
	struct burden burden = {0};

	for (unsigned i = 0; i < loads->n; i++) {
		if (!(set >> i & 1))
			continue;
		burden.sum += loads->load[i];
		if (loads->load[i] > burden.most)
			burden.most = loads->load[i];
	}
	return burden;
}

/* `n' consecutive groups, beginning with `first', with wrap-around. */
static uint64_t run_from(const struct sm_loads *loads, unsigned first, unsigned n)
{
	uint64_t set = 0;

	for (unsigned i = 0; i < n; i++)
		set |= (uint64_t)1 << (first + i) % loads->n;
	return set;
}

/* Chooses groups one by one, anywhere. No set of that size has a lower load. */
static uint64_t choose_scattered(const struct sm_loads *loads, uint64_t within, unsigned n)
{
	uint64_t set = 0;

	for (unsigned k = 0; k < n; k++) {
		unsigned best = loads->n;

		for (unsigned i = 0; i < loads->n; i++)
			if (((within & ~set) >> i & 1) &&
				(best == loads->n || loads->load[i] < loads->load[best]))
				best = i;
		assert(best < loads->n);
		set |= (uint64_t)1 << best;
	}
	return set;
}

uint64_t sm_loads_choose(const struct sm_loads *loads, uint64_t within, unsigned n)
{
	uint64_t scattered = choose_scattered(loads, within, n);
	struct burden least = burden_of(loads, scattered);

	for (unsigned i = 0; i < loads->n; i++) {
		uint64_t run = run_from(loads, i, n);

		if (!(run & ~within) && !is_less(least, burden_of(loads, run)))
			return run;
	}
	return scattered;
}

uint64_t sm_set_first(unsigned n)
{
	return n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
}

void sm_loads_add(struct sm_loads *loads, uint64_t set)
{
	for (unsigned i = 0; i < loads->n; i++)
		loads->load[i] += set >> i & 1;
}

void sm_loads_remove(struct sm_loads *loads, uint64_t set)
{
	for (unsigned i = 0; i < loads->n; i++) {
		assert(!(set >> i & 1) || loads->load[i] > 0);
		loads->load[i] -= set >> i & 1;
	}
}
