/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEED_H
#define SEED_H

/*
 * The seed of a unit test's random choices. It is printed, so that a failed run can
 * be repeated.
 */

#include <stdio.h>
#include <stdlib.h>

/* MPS_TEST_SEED, or this default. */
static inline unsigned seed_read(unsigned fixed)
{
	const char *text = getenv("MPS_TEST_SEED");
	unsigned seed = text && *text ? (unsigned)strtoul(text, NULL, 10) : fixed;

	printf("    MPS_TEST_SEED=%u\n", seed);
	return seed;
}

#endif
