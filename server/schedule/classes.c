/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The list of the sessions that have launched kernels, by class. Workers.
 *
 * Invariant: a listed session lives, with its page. Every session has the bit OBSERVER_CLASSES,
 * except for the listed foreground sessions while no background session is listed.
 */

#include "classes.h"

#include "lock.h"
#include "server/session/at_work.h"
#include "server/session/session_part.h"
#include "server/device/priority.h"

/* The lock is held for a look at all of them. */
static struct lock lock = LOCK_INIT(CLASSES);
static struct classed *first;
static unsigned n_background;

/* Under the lock: background sessions begin to exist, or none is left. */
static void notify_foreground(void)
{
	for (struct classed *listed = first; listed; listed = listed->next)
		if (listed->class == CLASS_FOREGROUND && n_background == 0)
			atomic_fetch_and(&listed->session->observers, ~OBSERVER_CLASSES);
		else
			atomic_fetch_or(&listed->session->observers, OBSERVER_CLASSES);
}

static void list(struct classed *own)
{
	lock_take(&lock);
	LIST_PUSH(first, own);
	if (own->session->limits.priority == PRIORITY_BACKGROUND) {
		own->class = CLASS_BACKGROUND;
		if (++n_background == 1)
			notify_foreground();
	} else {
		own->class = CLASS_FOREGROUND;
		if (n_background == 0)
			atomic_fetch_and(&own->session->observers, ~OBSERVER_CLASSES);
	}
	lock_release(&lock);
}

static void unlist(struct classed *own)
{
	if (own->class == CLASS_NONE)
		return;
	lock_take(&lock);
	LIST_DROP(first, own);
	if (own->class == CLASS_BACKGROUND && --n_background == 0)
		notify_foreground();
	own->class = CLASS_NONE;
	atomic_fetch_or(&own->session->observers, OBSERVER_CLASSES);
	lock_release(&lock);
}

enum session_class classes_join(struct session *session)
{
	if (session->classed->class == CLASS_NONE)
		list(session->classed);
	return session->classed->class;
}

enum session_class classes_class(const struct session *session)
{
	enum session_class class;

	lock_take(&lock);
	class = session->classed->class;
	lock_release(&lock);
	return class;
}

static bool has_opened(const struct session *session, uint32_t ordinal)
{
	return atomic_load_explicit(&session->granted, memory_order_relaxed) >> ordinal & 1;
}

enum foreground_state classes_foreground(uint32_t ordinal)
{
	enum foreground_state found = FOREGROUND_ABSENT;

	lock_take(&lock);
	for (const struct classed *other = first; other; other = other->next) {
		if (other->class != CLASS_FOREGROUND || !has_opened(other->session, ordinal))
			continue;
		found = FOREGROUND_IDLE;
		if (session_is_at_work(other->session)) {
			found = FOREGROUND_AT_WORK;
			break;
		}
	}
	lock_release(&lock);
	return found;
}

/* The GPU has not written the number of the session's last launch yet. */
static bool is_unfinished(const struct classed *other, uint64_t n_noted)
{
	const uint64_t __shm *words = other->session->page->background;

	return n_noted > 0 && shm_load64(&words[(n_noted - 1) % BACKGROUND_QUEUED_MAX]) != n_noted;
}

struct background_work classes_background(uint32_t ordinal)
{
	struct background_work found = {0};

	lock_take(&lock);
	for (const struct classed *other = first; other; other = other->next) {
		uint64_t n_noted = atomic_load(&other->n_noted);

		if (other->class != CLASS_BACKGROUND || !has_opened(other->session, ordinal))
			continue;
		found.n_noted += n_noted;
		if (is_unfinished(other, n_noted))
			found.groups = MAX(found.groups, atomic_load(&other->groups));
	}
	lock_release(&lock);
	return found;
}

static void classes_begin(struct session *session, void *part)
{
	session->classed = part;
	session->classed->session = session;
	atomic_fetch_or(&session->observers, OBSERVER_CLASSES);
}

static void classes_end(struct session *session, bool device_lost)
{
	(void)device_lost;
	unlist(session->classed);
}

const struct session_part classes_part = {
	.size = sizeof(struct classed),
	.begin = classes_begin,
	.end = classes_end,
};
