/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The workers that may launch. Any worker, and the deferred thread.
 *
 * Invariant: a session in the list lives as long as the lock is held.
 */

#include "launching.h"

#include "base.h"
#include "lock.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"

atomic_uint launching_n_reasons;

static struct lock lock = LOCK_INIT(LAUNCHING);

static struct launching *workers; /* under the lock */

static void launching_init(struct session *session, void *memory)
{
	session->launching = memory;
	session->launching->session = session;
}

void launching_join(struct session *session)
{
	struct launching *launching = session->launching;

	if (launching->is_listed)
		return;
	lock_take(&lock);
	LIST_PUSH(workers, launching);
	lock_release(&lock);
	launching->is_listed = true;
}

static void launching_leave(struct session *session, _unused_ bool device_lost)
{
	struct launching **link = &workers;

	if (!session->launching->is_listed)
		return;
	lock_take(&lock);
	while (*link != session->launching)
		link = &(*link)->next;
	*link = session->launching->next;
	lock_release(&lock);
}

/* Whether the session is held with nothing on the only GPU that it uses. */
static bool is_at_rest(const struct launching *one)
{
	const unsigned held_at = atomic_load(&one->held_at);

	return held_at > 0 && atomic_load(&one->is_at_rest) &&
	       atomic_load(&one->session->granted) == UINT64_C(1) << (held_at - 1);
}

/* Before a worker that waits at a gate hears of the fault, and goes on as if it had work. */
static void launching_note_fault(struct session *first)
{
	lock_hold(&lock);
	bool is_any = false;

	for (const struct launching *one = workers; one; one = one->next) {
		bool had_work = atomic_load(&one->is_on) ||
				(session_is_at_work(one->session) && !is_at_rest(one));

		is_any |= had_work;
		atomic_store(&one->session->had_work, had_work);
	}
	/* Then the one that has seen the fault has caused it. */
	if (!is_any)
		atomic_store(&first->had_work, true);
}

const struct session_part launching_part = {
	.size = sizeof(struct launching),
	.begin = launching_init,
	.fault = launching_note_fault,
	.end = launching_leave,
};

bool launching_any(const struct session *but)
{
	bool is_any = false;

	lock_take(&lock);
	for (const struct launching *one = workers; one && !is_any; one = one->next)
		is_any = one->session != but && atomic_load(&one->is_on);
	lock_release(&lock);
	return is_any;
}

uint64_t launching_program(const struct session *session)
{
	return ((uint64_t)session->uid << 32 | session->program) + 1;
}

/* Work on any GPU counts for each that the session has opened. */
static bool works(const struct launching *one, const struct device *device)
{
	const struct session *session = one->session;

	return (atomic_load(&session->granted) & UINT64_C(1) << device->ordinal) &&
	       (atomic_load(&one->is_on) || session_is_at_work(session));
}

bool launching_works(const struct device *device, uint64_t program)
{
	bool has_work = false;

	lock_take(&lock);
	for (const struct launching *one = workers; one && !has_work; one = one->next)
		has_work = launching_program(one->session) == program && works(one, device);
	lock_release(&lock);
	return has_work;
}

enum launching_work launching_others(const struct device *device, uint64_t program)
{
	enum launching_work work = WORK_NONE;

	lock_take(&lock);
	for (const struct launching *one = workers; one; one = one->next) {
		if (launching_program(one->session) == program || !works(one, device))
			continue;
		if (atomic_load(&one->held_at) == device->ordinal + 1)
			work = MAX(work, WORK_IF_ANY);
		else
			work = WORK_SOME;
	}
	lock_release(&lock);
	return work;
}
