/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCK_H
#define LOCK_H

/*
 * A mutex that knows its place in the order of all locks (lock_table.h). A thread takes only
 * locks that come after all locks that it holds, so threads never wait for each other in a circle.
 *
 * With LOCK_CHECKS (builds with SAN or DEBUG) a thread that breaks the rule aborts at once,
 * whatever other threads do. Without it, a lock is a mutex and nothing more.
 */

#include <pthread.h>
#include <stdbool.h>

#include "lock_table.h"

struct lock {
	pthread_mutex_t mutex;
#ifdef LOCK_CHECKS
	enum lock_order order;
#endif
};

#ifdef LOCK_CHECKS

/* For static locks: LOCK_INIT(DEVICE). */
#define LOCK_INIT(name)                                                                            \
	{                                                                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .order = LOCK_##name                           \
	}

#define LOCK_PLACE_(line) __FILE__ ":" #line
#define LOCK_PLACE(line) LOCK_PLACE_(line)

/* Each aborts, with names and places, if the thread may not do this now. */
void lock_check_take(const struct lock *lock, const char *place);
void lock_check_taken(const struct lock *lock, const char *place);
void lock_check_release(const struct lock *lock, const char *place);
void lock_check_wait(const struct lock *lock, const char *place);
void lock_check_none(const char *place);

#define LOCK_CHECK(what, lock) lock_check_##what(lock, place)
#define LOCK_CHECK_NONE(place) lock_check_none(place)
#define LOCK_SET_ORDER(lock, value) ((lock)->order = (value))

#else

#define LOCK_INIT(name)                                                                            \
	{                                                                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER                                                 \
	}
#define LOCK_PLACE(line) NULL
#define LOCK_CHECK(what, lock) ((void)place)
#define LOCK_CHECK_NONE(place) ((void)0)
#define LOCK_SET_ORDER(lock, value) ((void)(value))

#endif

static inline void lock_init(struct lock *lock, enum lock_order order)
{
	pthread_mutex_init(&lock->mutex, NULL);
	LOCK_SET_ORDER(lock, order);
}

static inline void lock_fini(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void lock_take_at(struct lock *lock, const char *place)
{
	LOCK_CHECK(take, lock);
	pthread_mutex_lock(&lock->mutex);
	LOCK_CHECK(taken, lock);
}

/* Never waits, so it may take a lock that comes before one that the thread holds. */
static inline bool lock_try_at(struct lock *lock, const char *place)
{
	if (pthread_mutex_trylock(&lock->mutex) != 0)
		return false;
	LOCK_CHECK(taken, lock);
	return true;
}

static inline void lock_release_at(struct lock *lock, const char *place)
{
	LOCK_CHECK(release, lock);
	pthread_mutex_unlock(&lock->mutex);
}

/*
 * The mutex for pthread_cond_wait() and its like. The wait takes the lock again, so the thread may
 * hold no lock that comes after this one.
 */
static inline pthread_mutex_t *lock_to_wait_at(struct lock *lock, const char *place)
{
	LOCK_CHECK(wait, lock);
	return &lock->mutex;
}

static inline struct lock *lock_enter_at(struct lock *lock, const char *place)
{
	lock_take_at(lock, place);
	return lock;
}

static inline void lock_leave(struct lock **lock)
{
	lock_release_at(*lock, "the end of the scope");
}

#define lock_take(lock) lock_take_at(lock, LOCK_PLACE(__LINE__))
#define lock_try(lock) lock_try_at(lock, LOCK_PLACE(__LINE__))
#define lock_release(lock) lock_release_at(lock, LOCK_PLACE(__LINE__))
#define lock_to_wait(lock) lock_to_wait_at(lock, LOCK_PLACE(__LINE__))

/* Takes a lock until the end of the scope. */
#define lock_hold(held)                                                                            \
	__attribute__((cleanup(lock_leave), unused)) struct lock *_held =                          \
		lock_enter_at(held, LOCK_PLACE(__LINE__))

/* Before a thread waits for something other than a lock or a condition: it holds no lock. */
#define lock_expect_none() LOCK_CHECK_NONE(LOCK_PLACE(__LINE__))

#endif
