/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of VA windows (units). Changed under its lock, read without.
 *
 * Invariant: the entry of a unit is 0 or names a session that has reserved the unit in the
 * driver.
 */

#include "owner.h"

#include <pthread.h>
#include <stdatomic.h>

/* Units of the host space come after those of the device space. */
#define DEVICE_UNITS ((uint32_t)((DEVICE_SPACE_END - DEVICE_SPACE) >> SPACE_UNIT_SHIFT))
#define N_UNITS ((uint32_t)((HOST_SPACE_END - DEVICE_SPACE) >> SPACE_UNIT_SHIFT))

_Static_assert(HOST_SPACE == DEVICE_SPACE_END, "one table for both");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t units[N_UNITS];      /* session << 32 | device */
static _Atomic uint64_t last_units[N_UNITS]; /* the same, kept after a unit was given back */

static struct owner owner_look_up(const _Atomic uint64_t table[N_UNITS], uint64_t address)
{
	uint64_t word;

	if (address < DEVICE_SPACE || address >= HOST_SPACE_END)
		return (struct owner){0};
	word = atomic_load_explicit(
		&table[(address - DEVICE_SPACE) >> SPACE_UNIT_SHIFT], memory_order_relaxed);
	return (struct owner){(uint32_t)(word >> 32), (uint32_t)word};
}

struct owner owner_of(uint64_t address)
{
	return owner_look_up(units, address);
}

struct owner owner_last(uint64_t address)
{
	return owner_look_up(last_units, address);
}

static void owner_set(
	_Atomic uint64_t table[N_UNITS], uint32_t unit, uint32_t n_units, uint64_t word)
{
	for (uint32_t i = 0; i < n_units; i++)
		atomic_store_explicit(&table[unit + i], word, memory_order_relaxed);
}

/* Returns the first unit, or -ENOSPC. */
static int owner_find(struct owner owner, uint32_t from, uint32_t n_units)
{
	bool is_host = owner.device == OWNER_HOST;
	uint32_t first = is_host ? DEVICE_UNITS : 0, end = is_host ? N_UNITS : DEVICE_UNITS;
	uint32_t n_free = 0;
	uint64_t word;
	int r = -ENOSPC;

	pthread_mutex_lock(&lock);
	for (uint32_t i = MAX(from, first); i < end; i++) {
		n_free = units[i] == 0 ? n_free + 1 : 0;
		if (n_free == n_units) {
			r = (int)(i + 1 - n_units);
			word = (uint64_t)owner.session << 32 | owner.device;
			owner_set(units, (uint32_t)r, n_units, word);
			owner_set(last_units, (uint32_t)r, n_units, word);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int owner_take(void *block, struct owner owner, uint32_t from, uint32_t n_units)
{
	enum resource windows =
		owner.device == OWNER_HOST ? RESOURCE_HOST_WINDOWS : RESOURCE_DEVICE_WINDOWS;
	int r;

	if (n_units == 0 || n_units > N_UNITS || !account_take(block, windows, n_units))
		return -ENOSPC;
	r = owner_find(owner, from, n_units);
	if (r < 0)
		account_give(block, windows, n_units);
	return r;
}

void owner_give_back(void *block, uint32_t unit, uint32_t n_units)
{
	pthread_mutex_lock(&lock);
	owner_set(units, unit, n_units, 0);
	pthread_mutex_unlock(&lock);
	account_give(block, unit < DEVICE_UNITS ? RESOURCE_DEVICE_WINDOWS : RESOURCE_HOST_WINDOWS,
		n_units);
}
