/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWNER_H
#define OWNER_H

/*
 * Which session owns a VA window of the device space or of the host space: one
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

/* The owner of the VA window that contains `address'. */
struct owner owner_of(uint64_t address);

/* The same; for a window without an owner, its last owner. */
struct owner owner_last(uint64_t address);

/*
 * Gives an owner `n_va_windows' adjacent free windows of its space, at or after window `from'. The
 * object of `block' takes them from its account. Returns the number of the first window, or
 * -ENOSPC.
 */
int owner_take(void *block, struct owner owner, uint32_t from, uint32_t n_va_windows);

void owner_give_back(void *block, uint32_t va_window, uint32_t n_va_windows);

/* How many other windows are tried if the driver or the machine uses the addresses itself. */
#define OWNER_TRIES 16

/* The address of a window, and the window of an address. */
static inline uint64_t owner_address(uint32_t va_window)
{
	return DEVICE_SPACE + ((uint64_t)va_window << VA_WINDOW_SHIFT);
}

static inline uint32_t owner_va_window(uint64_t address)
{
	return (uint32_t)((address - DEVICE_SPACE) >> VA_WINDOW_SHIFT);
}

#endif
