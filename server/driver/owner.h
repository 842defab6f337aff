/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWNER_H
#define OWNER_H

/*
 * Which session owns a VA window (unit) of the device space or of the host space: one
 * look-up from a pointer to its session and GPU. Any thread.
 */

#include "layout.h"
#include "server/util/account.h"

/* Session IDs begin with 1. */
struct owner {
	uint32_t session; /* 0: no owner */
	uint32_t device;  /* OWNER_HOST: of the host space; OWNER_RESERVED: of no fixed GPU */
};

#define OWNER_HOST UINT32_MAX
#define OWNER_RESERVED (UINT32_MAX - 1)

/* The owner of the unit that contains `address'. */
struct owner owner_of(uint64_t address);

/* The same; for a unit without an owner, its last owner. */
struct owner owner_last(uint64_t address);

/*
 * Gives an owner `n_units' adjacent free units of its space, at or after unit `from', which
 * the object of `block' takes from its account. Returns the number of the first unit, or
 * -ENOSPC.
 */
int owner_take(void *block, struct owner owner, uint32_t from, uint32_t n_units);

void owner_give_back(void *block, uint32_t unit, uint32_t n_units);

/* How many other units are tried if the driver or the machine uses the addresses itself. */
#define OWNER_TRIES 16

/* The address of a unit, and the unit of an address. */
static inline uint64_t owner_address(uint32_t unit)
{
	return DEVICE_SPACE + ((uint64_t)unit << SPACE_UNIT_SHIFT);
}

static inline uint32_t owner_unit(uint64_t address)
{
	return (uint32_t)((address - DEVICE_SPACE) >> SPACE_UNIT_SHIFT);
}

#endif
