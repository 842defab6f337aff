/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Delays launches of background clients. A worker.
 *
 * Invariant: whatever other clients do, and whatever they write into shared memory, a launch
 * waits here for at most the bound of a delay and STUCK_NS.
 */

#include "background.h"

#include "blocked_streams.h"
#include "bounds.h"
#include "clock.h"
#include "gate.h"
#include "lock.h"
#include "server/util/number.h"
#include "server/session/at_work.h"
#include "server/session/counting.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"
#include "server/device/priority.h"

/* A client that goes first counts as being at work for so long after its work. */
#define RECENT_NS 200000u

/*
 * Work that does not end for so long may wait for a later message of this client. Then the
 * depth is not bounded until some of it ends.
 */
#define STUCK_NS 100000000u

static uint64_t delay_ns;

/* The sessions that go first. The lock is held for a look at all of them. */
static struct lock lock = LOCK_INIT(BACKGROUND);
static struct background *first;

/* What the sessions that go first do on a GPU. */
enum others {
	OTHERS_NONE, /* no such session has opened it */
	OTHERS_IDLE,
	OTHERS_AT_WORK
};

void background_init(void)
{
	delay_ns = 1000 * number_setting("MPS_BACKGROUND_DELAY_US", "microseconds", 0,
				  BACKGROUND_DELAY_US_MAX, BACKGROUND_DELAY_US_DEFAULT);
}

/* ---- the sessions that go first */

static void list(struct background *own)
{
	lock_take(&lock);
	LIST_PUSH(first, own);
	own->goes_first = true;
	lock_release(&lock);
}

static void unlist(struct background *own)
{
	if (!own->goes_first)
		return;
	lock_take(&lock);
	LIST_DROP(first, own);
	own->goes_first = false;
	lock_release(&lock);
}

static enum others look_at_others(uint32_t ordinal)
{
	enum others found = OTHERS_NONE;

	lock_take(&lock);
	for (const struct background *other = first; other; other = other->next) {
		const struct session *session = other->session;

		if (!(atomic_load_explicit(&session->granted, memory_order_relaxed) >> ordinal & 1))
			continue;
		found = OTHERS_IDLE;
		if (session_is_at_work(session)) {
			found = OTHERS_AT_WORK;
			break;
		}
	}
	lock_release(&lock);
	return found;
}

/* ---- its own work on the GPU */

/* The GPU writes the number of a launch into its word. */
static uint64_t __shm *word_of(const struct session *session, uint64_t number)
{
	return &session->page->background[number % BACKGROUND_QUEUED_MAX];
}

/* A quarter of the way to a bound that the average violates. */
static uint64_t moved_to(uint64_t average_ns, uint64_t bound_ns)
{
	return MAX((3 * average_ns + bound_ns) / 4, 1u);
}

/*
 * The `n_launches' oldest ones have ended, with `n_kernels' kernels. Together these were on the
 * GPU for at most the time until now, and for at least the time until the oldest launch was last
 * seen unfinished.
 */
static void note_ends(struct background *own, uint64_t n_launches, unsigned n_kernels, uint64_t now)
{
	const struct queued_kernels *oldest = &own->queue[own->n_ended % BACKGROUND_QUEUED_MAX];
	uint64_t began_ns = MAX(oldest->launched_ns, own->ended_ns);
	uint64_t most_ns = (now - began_ns) / n_kernels;
	uint64_t least_ns =
		own->unfinished_ns > began_ns ? (own->unfinished_ns - began_ns) / n_kernels : 0;

	/* The first look may come long after the end. */
	if (own->kernel_ns == 0)
		own->kernel_ns = MAX(MIN(most_ns, BACKGROUND_SHALLOW_NS), 1u);
	else if (own->kernel_ns > most_ns)
		own->kernel_ns = moved_to(own->kernel_ns, most_ns);
	else if (own->kernel_ns < least_ns)
		own->kernel_ns = moved_to(own->kernel_ns, least_ns);
	own->n_kernels -= n_kernels;
	own->n_ended += n_launches;
	own->ended_ns = now;
	own->is_depth_ignored = false;
}

void background_settle(struct background *own, uint64_t now)
{
	uint64_t number = own->n_ended;
	unsigned n_kernels = 0;

	for (; number < own->n_watched; number++) {
		if (shm_load64(word_of(own->session, number)) != number + 1)
			break;
		n_kernels += own->queue[number % BACKGROUND_QUEUED_MAX].n;
	}
	if (n_kernels > 0)
		note_ends(own, number - own->n_ended, n_kernels, now);
	if (own->n_ended < own->n_watched)
		own->unfinished_ns = now;
}

/*
 * How many of `n' kernels may be queued in addition to those that are, with that bound. Below
 * the bound, `least' may be.
 */
static unsigned space_left(
	const struct background *own, uint64_t depth_ns, unsigned least, unsigned n)
{
	uint64_t queued_ns = own->n_kernels * own->kernel_ns;

	if (own->n_watched - own->n_ended == BACKGROUND_QUEUED_MAX || queued_ns >= depth_ns)
		return 0;
	/* One launch at a time, until its time is known. */
	if (own->kernel_ns == 0)
		return own->n_kernels == 0 ? n : 0;
	return (unsigned)MIN(MAX((depth_ns - queued_ns) / own->kernel_ns, least), n);
}

/* ---- delays */

/* One launch, or several, that wait for space in the queue. */
struct space_wait {
	uint32_t ordinal;
	unsigned n, least;          /* kernels; a graph needs space for all: `least' is `n' */
	uint64_t start_ns, look_ns; /* of the first look and of the last one; 0: none yet */
	bool is_delayed;            /* at the last look, by the work of others */
};

static bool are_others_at_work(struct background *own, enum others others, uint64_t now)
{
	if (others == OTHERS_AT_WORK)
		own->others_at_work_ns = now;
	return own->others_at_work_ns > 0 && now - own->others_at_work_ns < RECENT_NS;
}

static bool is_delayed(
	struct background *own, enum others others, const struct space_wait *wait, uint64_t now)
{
	if (!are_others_at_work(own, others, now) || now < own->runs_until_ns)
		return false;
	if (now - wait->start_ns < delay_ns)
		return true;
	own->runs_until_ns = now + BACKGROUND_RUN_NS;
	return false;
}

/* How many kernels may go while work of other clients delays the launch. */
static unsigned shallow_space(const struct background *own, const struct space_wait *wait)
{
	unsigned space = space_left(own, BACKGROUND_SHALLOW_NS, 0, wait->n);

	return space < wait->least ? 0 : space;
}

/* How many kernels may go if no work delays the launch: all, if the queue has not moved for long.
 */
static unsigned deep_space(struct background *own, const struct space_wait *wait, uint64_t now)
{
	if (now - wait->start_ns >= delay_ns + STUCK_NS)
		own->is_depth_ignored = true;
	return own->is_depth_ignored ? wait->n : space_left(own, BACKGROUND_DEPTH_NS, 1, wait->n);
}

/* One look: how many kernels may go; 0: look again. */
static unsigned look(struct session *session, struct space_wait *wait)
{
	struct background *own = session->background;
	enum others others = look_at_others(wait->ordinal);
	uint64_t now = now_ns();

	if (wait->start_ns == 0)
		wait->start_ns = now;
	if (wait->is_delayed)
		counter_add(session, COUNTER_DELAYED, now - wait->look_ns);
	wait->look_ns = now;
	background_settle(own, now);
	if (others == OTHERS_NONE)
		return wait->n;
	wait->is_delayed = is_delayed(own, others, wait, now);
	return wait->is_delayed ? shallow_space(own, wait) : deep_space(own, wait, now);
}

static unsigned wait_for_space(
	struct session *session, const struct stream *stream, unsigned least, unsigned n)
{
	struct space_wait wait = {.ordinal = stream->device->ordinal, .n = n, .least = least};
	struct gate_wait gate = gate_wait(GATE_BACKGROUND, session);
	unsigned n_now;

	if (session->limits.priority < PRIORITY_BACKGROUND) {
		list(session->background);
		return n;
	}
	while ((n_now = look(session, &wait)) == 0)
		if (!gate_again(&gate))
			return n;
	return n_now;
}

unsigned background_wait(struct session *session, const struct stream *stream, unsigned n)
{
	if (likely(session->background->goes_first) || delay_ns == 0)
		return n;
	return wait_for_space(session, stream, 1, n);
}

void background_wait_graph(struct session *session, const struct stream *stream, unsigned n)
{
	if (unlikely(!session->background->goes_first) && delay_ns > 0)
		wait_for_space(session, stream, n, n);
}

void background_note(struct session *session, struct stream *stream, unsigned n)
{
	struct background *own = session->background;
	CUdeviceptr words = session->timeline + offsetof(struct page, background) -
			    offsetof(struct page, timeline);
	uint64_t number = own->n_watched;

	if (likely(own->goes_first) || delay_ns == 0 || n == 0 ||
		number - own->n_ended == BACKGROUND_QUEUED_MAX ||
		look_at_others(stream->device->ordinal) == OTHERS_NONE)
		return;
	blocked_count_call(session, stream);
	blocked_evade_write(session, stream);
	if (cuda.cuStreamWriteValue64_v2(stream->real,
		    words + number % BACKGROUND_QUEUED_MAX * sizeof(uint64_t), number + 1,
		    CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
		return;
	own->queue[number % BACKGROUND_QUEUED_MAX] =
		(struct queued_kernels){.n = n, .launched_ns = now_ns()};
	own->n_watched++;
	own->n_kernels += n;
}

static void background_begin(struct session *session, void *part)
{
	session->background = part;
	session->background->session = session;
}

static void background_end(struct session *session, _unused_ bool device_lost)
{
	unlist(session->background);
}

const struct session_part background_part = {
	.size = sizeof(struct background),
	.begin = background_begin,
	.end = background_end,
};
