/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPIN_H
#define SPIN_H

/*
 * A loop that looks at shared memory again and again before its thread sleeps:
 *
 *	struct spin spin = {.length_ns = 50000};
 *
 *	while (!is_there())
 *		if (!spin_again(&spin))
 *			return false;
 */

#include "clock.h"
#include "shm.h"
#include "yielder.h"

/* Reading the clock takes about as long as ten looks. */
#define SPIN_LOOKS_A_CLOCK 16
#define SPIN_LOOKS_A_YIELD 8

struct spin {
	uint64_t length_ns;      /* set by the caller */
	struct yielder *yielder; /* set by the caller; NULL: the thread keeps its processor */
	uint64_t end_ns;         /* 0: the clock was not read yet */
	unsigned n_looks;
};

/* Pauses the processor for a moment. False: the length has passed. */
static inline bool spin_again(struct spin *spin)
{
	uint64_t now;

	shm_relax();
	if (++spin->n_looks % SPIN_LOOKS_A_YIELD == 0 && spin->yielder)
		yielder_yield(spin->yielder);
	if (spin->n_looks % SPIN_LOOKS_A_CLOCK != 1)
		return true;
	now = now_ns();
	if (spin->end_ns == 0)
		spin->end_ns = now + spin->length_ns;
	return now < spin->end_ns;
}

#endif
