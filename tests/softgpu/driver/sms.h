/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMS_H
#define SMS_H

/*
 * Sets of SMs of a device, by number: all SMs of a device (driver.n_sms), or those
 * of a green context. Plain values.
 */

#include <stdbool.h>
#include <stdint.h>

#define SMS_MAX 256u

struct sm_set {
	uint64_t words[SMS_MAX / 64];
};

struct sm_set sm_set_all(void);
unsigned sm_set_count(const struct sm_set *set);

/* Moves the first `n' SMs of a set to another set, or as many as there are. */
struct sm_set sm_set_take(struct sm_set *from, unsigned n);

/* Writes the numbers in rising order; returns their count. */
uint32_t sm_set_list(const struct sm_set *set, uint16_t list[SMS_MAX]);

#endif
