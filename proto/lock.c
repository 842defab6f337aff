/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The check of the order of locks. Any thread; each knows only its own locks. Builds without
 * LOCK_CHECKS compile this file, but link nothing of it.
 */

#ifndef LOCK_CHECKS
#define LOCK_CHECKS
#endif

#include "lock.h"

#include <stdio.h>
#include <stdlib.h>

/* No thread needs half as many; more were never released. */
#define HELD_MAX 16

struct held {
	const struct lock *lock;
	const char *place; /* where it was taken */
};

static _Thread_local struct held held[HELD_MAX];
static _Thread_local unsigned n_held;

static const char *lock_name(const struct lock *lock)
{
	static const char *const names[] = {
#define NAME(name, what) [LOCK_##name] = #name " (" what ")",
		LOCK_TABLE(NAME)
#undef NAME
	};

	return lock->order > 0 && lock->order < LOCKS ? names[lock->order] : "without lock_init()";
}

static _Noreturn void fail(
	const char *place, const char *does, const struct lock *lock, const struct held *other)
{
	if (other)
		fprintf(stderr, "%s: %s the lock %d, %s, but holds the lock %d, %s, since %s\n",
			place, does, (int)lock->order, lock_name(lock), (int)other->lock->order,
			lock_name(other->lock), other->place);
	else
		fprintf(stderr, "%s: %s the lock %d, %s\n", place, does, (int)lock->order,
			lock_name(lock));
	abort();
}

void lock_check_take(const struct lock *lock, const char *place)
{
	if (lock->order <= 0 || lock->order >= LOCKS)
		fail(place, "takes", lock, NULL);
	for (unsigned i = 0; i < n_held; i++)
		if (held[i].lock->order >= lock->order)
			fail(place, "takes", lock, &held[i]);
}

void lock_check_taken(const struct lock *lock, const char *place)
{
	if (n_held == HELD_MAX)
		fail(place, "takes, as one too many,", lock, &held[n_held - 1]);
	held[n_held++] = (struct held){.lock = lock, .place = place};
}

void lock_check_none(const char *place)
{
	if (n_held > 0)
		fail(place, "waits, and holds", held[n_held - 1].lock, NULL);
}

void lock_check_release(const struct lock *lock, const char *place)
{
	unsigned i = n_held;

	while (i > 0 && held[i - 1].lock != lock)
		i--;
	if (i == 0)
		fail(place, "releases, without holding it,", lock, NULL);
	for (n_held--; i <= n_held; i++)
		held[i - 1] = held[i];
}

void lock_check_wait(const struct lock *lock, const char *place)
{
	bool is_held = false;

	for (unsigned i = 0; i < n_held; i++) {
		is_held |= held[i].lock == lock;
		if (held[i].lock->order > lock->order)
			fail(place, "waits and takes again", lock, &held[i]);
	}
	if (!is_held)
		fail(place, "waits, without holding it, with", lock, NULL);
}
