/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leases of groups.
 *
 * Invariant: a quota with a limit counts `away' as used, which is the limit less the lease.
 */

#include "lease.h"

#include <pthread.h>
#include <string.h>

#include "clock.h"
#include "group.h"
#include "lock.h"
#include "session.h"

/* How often a waiting worker looks whether its session ends. */
#define LOOK_MS 50

static struct lock lock = LOCK_INIT(LEASES);
static pthread_cond_t replied = PTHREAD_COND_INITIALIZER;

static uint64_t lease_of(const struct group *group, unsigned i)
{
	uint64_t limit = atomic_load(&group->memory[i].limit);

	return limit == UINT64_MAX ? UINT64_MAX : limit - group->lease.away[i];
}

/* A charge that happens meanwhile meets the old lease or the new one. */
static void lease_set(struct group *group, unsigned i, uint64_t limit, uint64_t lease)
{
	struct quota *quota = &group->memory[i];
	uint64_t old = group->lease.away[i];
	uint64_t away = limit == UINT64_MAX ? 0 : limit - MIN(lease, limit);

	if (away > old)
		quota_force(quota, away - old);
	atomic_store(&quota->limit, limit);
	if (away < old)
		quota_refund(quota, old - away);
	atomic_store(&group->lease.away[i], away);
}

void lease_set_limits(struct group *group, const uint64_t limits[DEVICES_MAX])
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		lease_set(group, i, limits[i], lease_of(group, i));
}

void lease_take(struct group *group, const struct frame_lease *frame)
{
	struct lease *lease = &group->lease;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (frame->bytes[i] > lease_of(group, i))
			lease_set(group, i, atomic_load(&group->memory[i].limit), frame->bytes[i]);
		atomic_store(&lease->spare[i], frame->spare[i]);
	}
	if (!frame->is_reply)
		return;
	lock_hold(&lock);
	lease->n_replies = lease->n_asked;
	lease->is_overdue = false;
	pthread_cond_broadcast(&replied);
}

/* What no member uses becomes what the lease lacks. */
static void give_back_one(struct group *group, unsigned i)
{
	struct quota *quota = &group->memory[i];
	uint64_t left = 0;

	if (atomic_load(&quota->limit) == UINT64_MAX)
		return;
	do
		left = quota_left(quota);
	while (left > 0 && !quota_charge(quota, left));
	atomic_fetch_add(&group->lease.away[i], left);
}

void lease_give_back(struct group *group, uint64_t ret_lease[DEVICES_MAX])
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		give_back_one(group, i);
	lease_get(group, ret_lease);
}

void lease_get(const struct group *group, uint64_t ret_lease[DEVICES_MAX])
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		uint64_t used = quota_used(&group->memory[i]) - group->lease.away[i];

		ret_lease[i] = MAX(lease_of(group, i), used);
	}
}

bool lease_next_want(struct group *group, struct frame_lease *frame)
{
	struct lease *lease = &group->lease;

	lock_hold(&lock);
	if (lease->n_asked != lease->n_replies || lease->n_wants <= lease->n_asked)
		return false;
	lease->n_asked = lease->n_wants;
	lease->asked = lease->wanted;
	lease->wanted = (struct lease_want){0};
	memcpy(frame->bytes, lease->asked.bytes, sizeof(frame->bytes));
	memcpy(frame->spare, lease->asked.spare, sizeof(frame->spare));
	return true;
}

void lease_lose_reply(struct group *group)
{
	struct lease *lease = &group->lease;

	lock_hold(&lock);
	for (unsigned i = 0; i < DEVICES_MAX && lease->n_asked > lease->n_replies; i++) {
		lease->wanted.bytes[i] = MAX(lease->wanted.bytes[i], lease->asked.bytes[i]);
		lease->wanted.spare[i] |= lease->asked.spare[i];
	}
	lease->n_asked = lease->n_replies;
}

/* ---- the worker */

/* Members charge their group in whole steps. */
static uint64_t whole_steps(uint64_t size)
{
	return size > UINT64_MAX - QUOTA_STEP ? UINT64_MAX : ALIGN_UP(size, QUOTA_STEP);
}

/* Returns the number of the want. */
static uint64_t add_want(struct lease *lease, uint32_t ordinal, uint64_t bytes)
{
	uint64_t *wanted = &lease->wanted.bytes[ordinal];

	lock_hold(&lock);
	if (bytes == 0)
		lease->wanted.spare[ordinal] = 1;
	else if (__builtin_add_overflow(*wanted, bytes, wanted))
		*wanted = UINT64_MAX;
	return ++lease->n_wants;
}

static void await_reply(const struct session *session, struct lease *lease, uint64_t number)
{
	uint64_t end_ms = now_ms() + LEASE_WAIT_MS;

	lock_hold(&lock);
	while (lease->n_replies < number && !lease->is_overdue &&
		!atomic_load(&session->is_ending)) {
		uint64_t look_ns = now_ns() + LOOK_MS * UINT64_C(1000000);
		struct timespec look = {.tv_sec = (time_t)(look_ns / 1000000000),
			.tv_nsec = (long)(look_ns % 1000000000)};

		pthread_cond_clockwait(&replied, lock_to_wait(&lock), CLOCK_MONOTONIC, &look);
		lease->is_overdue = lease->n_replies < number && now_ms() >= end_ms;
	}
}

/* `bytes': 0 only asks what is spare. */
static void lease_ask(
	struct session *session, struct group *group, uint32_t ordinal, uint64_t bytes)
{
	uint64_t number = add_want(&group->lease, ordinal, bytes);

	session->on_news(session->on_news_arg);
	await_reply(session, &group->lease, number);
}

/* Whether other servers may have a part of the limit. */
static bool is_divided(const struct group *group, uint32_t ordinal)
{
	return group && atomic_load(&group->lease.away[ordinal]) > 0;
}

static bool extend_one(
	struct session *session, struct group *group, uint32_t ordinal, uint64_t size)
{
	const struct quota *quota = &group->memory[ordinal];
	uint64_t need = whole_steps(size), left = quota_left(quota);

	if (!is_divided(group, ordinal) || left >= need)
		return false;
	lease_ask(session, group, ordinal, need - left);
	return quota_left(quota) >= need;
}

bool lease_extend(struct session *session, uint32_t ordinal, uint64_t size)
{
	bool is_larger = false;

	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (session_group(session, i))
			is_larger |= extend_one(session, session_group(session, i), ordinal, size);
	return is_larger;
}

uint64_t lease_left(struct session *session, uint32_t ordinal)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++) {
		struct group *group = session_group(session, i);
		uint64_t left, spare = 0;

		if (!group)
			continue;
		if (is_divided(group, ordinal)) {
			lease_ask(session, group, ordinal, 0);
			spare = atomic_load(&group->lease.spare[ordinal]);
		}
		left = quota_left(&group->memory[ordinal]);
		least = MIN(least, left > UINT64_MAX - spare ? left : left + spare);
	}
	return least;
}
