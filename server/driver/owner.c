/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of VA windows. Changed under its lock, read without.
 *
 * Invariant: the entry of a window is 0 or names a session that has reserved the window in the
 * driver.
 */

#include "owner.h"

#include <stdatomic.h>

#include "lock.h"

/* The windows of the host space come after those of the device space. */
#define DEVICE_VA_WINDOWS ((uint32_t)((DEVICE_SPACE_END - DEVICE_SPACE) >> VA_WINDOW_SHIFT))
#define N_VA_WINDOWS ((uint32_t)((HOST_SPACE_END - DEVICE_SPACE) >> VA_WINDOW_SHIFT))

_Static_assert(HOST_SPACE == DEVICE_SPACE_END, "one table for both");

static struct lock lock = LOCK_INIT(OWNERS);
/* session << 32 | device; the second table keeps this after a window was given back. */
static _Atomic uint64_t va_windows[N_VA_WINDOWS], last_va_windows[N_VA_WINDOWS];

static struct owner owner_look_up(const _Atomic uint64_t table[N_VA_WINDOWS], uint64_t address)
{
	uint64_t word;

	if (address < DEVICE_SPACE || address >= HOST_SPACE_END)
		return (struct owner){0};
	word = atomic_load_explicit(
		&table[(address - DEVICE_SPACE) >> VA_WINDOW_SHIFT], memory_order_relaxed);
	return (struct owner){(uint32_t)(word >> 32), (uint32_t)word};
}

struct owner owner_of(uint64_t address)
{
	return owner_look_up(va_windows, address);
}

struct owner owner_last(uint64_t address)
{
	return owner_look_up(last_va_windows, address);
}

static void owner_set(_Atomic uint64_t table[N_VA_WINDOWS], uint32_t va_window,
	uint32_t n_va_windows, uint64_t word)
{
	for (uint32_t i = 0; i < n_va_windows; i++)
		atomic_store_explicit(&table[va_window + i], word, memory_order_relaxed);
}

/* Returns the number of the first window, or -ENOSPC. */
static int owner_find(struct owner owner, uint32_t from, uint32_t n_va_windows)
{
	bool is_host = owner.device == OWNER_HOST;
	uint32_t first = is_host ? DEVICE_VA_WINDOWS : 0;
	uint32_t end = is_host ? N_VA_WINDOWS : DEVICE_VA_WINDOWS;
	uint32_t n_free = 0;
	uint64_t word = (uint64_t)owner.session << 32 | owner.device;

	lock_hold(&lock);
	for (uint32_t i = MAX(from, first); i < end; i++) {
		n_free = va_windows[i] == 0 ? n_free + 1 : 0;
		if (n_free == n_va_windows) {
			uint32_t found = i + 1 - n_va_windows;

			owner_set(va_windows, found, n_va_windows, word);
			owner_set(last_va_windows, found, n_va_windows, word);
			return (int)found;
		}
	}
	return -ENOSPC;
}

int owner_take(void *block, struct owner owner, uint32_t from, uint32_t n_va_windows)
{
	enum resource resource =
		owner.device == OWNER_HOST ? RESOURCE_HOST_WINDOWS : RESOURCE_DEVICE_WINDOWS;
	int r;

	if (n_va_windows == 0 || n_va_windows > N_VA_WINDOWS ||
		!account_take(block, resource, n_va_windows))
		return -ENOSPC;
	r = owner_find(owner, from, n_va_windows);
	if (r < 0)
		account_give(block, resource, n_va_windows);
	return r;
}

void owner_give_back(void *block, uint32_t va_window, uint32_t n_va_windows)
{
	lock_take(&lock);
	owner_set(va_windows, va_window, n_va_windows, 0);
	lock_release(&lock);
	account_give(block,
		va_window < DEVICE_VA_WINDOWS ? RESOURCE_DEVICE_WINDOWS : RESOURCE_HOST_WINDOWS,
		n_va_windows);
}
