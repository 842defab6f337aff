/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bounds what background sessions have on a GPU. A worker.
 *
 * Invariant: whatever other clients do, and whatever they write into shared memory, a launch
 * waits here for STUCK_NS at most.
 */

#include "background.h"

#include "blocked_streams.h"
#include "classes.h"
#include "clock.h"
#include "elastic.h"
#include "gate.h"
#include "server/session/counting.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"

/*
 * Work that does not end for so long may wait for a later message of this client. Then the
 * depth is not bounded until some of it ends.
 */
#define STUCK_NS 100000000u

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
		own->kernel_ns = MAX(MIN(most_ns, BACKGROUND_FIRST_NS), 1u);
	else if (own->kernel_ns > most_ns)
		own->kernel_ns = moved_to(own->kernel_ns, most_ns);
	else if (own->kernel_ns < least_ns)
		own->kernel_ns = moved_to(own->kernel_ns, least_ns);
	own->n_kernels -= n_kernels;
	own->n_ended += n_launches;
	own->ended_ns = now;
	own->is_depth_ignored = false;
}

/* The oldest unfinished launch runs now. */
static void publish_groups(const struct session *session, const struct background *own)
{
	atomic_store(&session->classed->groups,
		own->queue[own->n_ended % BACKGROUND_QUEUED_MAX].use.groups);
}

void background_settle(struct session *session, uint64_t now)
{
	struct background *own = session->background;
	uint64_t number = own->n_ended, yielded = 0;
	unsigned n_kernels = 0;

	for (; number < own->n_watched; number++) {
		const struct queued_kernels *queued = &own->queue[number % BACKGROUND_QUEUED_MAX];

		if (shm_load64(word_of(session, number)) != number + 1)
			break;
		n_kernels += queued->n;
		yielded += (uint64_t)queued->n * queued->use.yielded;
	}
	if (n_kernels > 0) {
		note_ends(own, number - own->n_ended, n_kernels, now);
		counter_add(session, COUNTER_YIELDED, own->kernel_ns * yielded / 1000);
		publish_groups(session, own);
	}
	if (own->n_ended < own->n_watched)
		own->unfinished_ns = now;
}

/* For how long the GPU still works on what is queued. The oldest launch may be nearly over. */
static uint64_t queued_ns(const struct background *own, uint64_t now)
{
	const struct queued_kernels *oldest = &own->queue[own->n_ended % BACKGROUND_QUEUED_MAX];
	uint64_t ran_ns = now - MAX(oldest->launched_ns, own->ended_ns);

	if (own->n_kernels == 0)
		return 0;
	return own->n_kernels * own->kernel_ns - MIN(ran_ns, oldest->n * own->kernel_ns);
}

/* How many of `n' kernels may be queued in addition to those that are; below the depth, one. */
static unsigned space_left(const struct background *own, unsigned n, uint64_t now)
{
	uint64_t ns = queued_ns(own, now);

	if (own->is_depth_ignored)
		return n;
	if (own->n_watched - own->n_ended == BACKGROUND_QUEUED_MAX || ns >= BACKGROUND_DEPTH_NS)
		return 0;
	/* One launch at a time, until its time is known. */
	if (own->kernel_ns == 0)
		return own->n_kernels == 0 ? n : 0;
	return (unsigned)MIN(MAX((BACKGROUND_DEPTH_NS - ns) / own->kernel_ns, 1u), n);
}

static void choose_groups(struct background *own, const struct device *device,
	enum foreground_state foreground, uint64_t now)
{
	if (foreground == FOREGROUND_AT_WORK)
		elastic_note_foreground(device, now);
	own->groups = elastic_has_foreground(device, now) ? elastic_groups(device, now)
							  : elastic_groups_all(device);
}

/* One look: how many of `n' kernels may go; 0: look again. */
static unsigned look(
	struct session *session, const struct device *device, unsigned n, uint64_t *start_ns)
{
	struct background *own = session->background;
	enum foreground_state foreground = classes_foreground(device->ordinal);
	uint64_t now = now_ns();

	background_settle(session, now);
	choose_groups(own, device, foreground, now);
	if (foreground == FOREGROUND_ABSENT)
		return n;
	if (*start_ns == 0)
		*start_ns = now;
	if (now - *start_ns >= STUCK_NS)
		own->is_depth_ignored = true;
	return space_left(own, n, now);
}

unsigned background_wait(
	struct session *session, const struct stream *stream, unsigned least, unsigned n)
{
	struct gate_wait gate = gate_wait(GATE_BACKGROUND, session);
	uint64_t start_ns = 0;
	unsigned n_now;

	while ((n_now = look(session, stream->device, n, &start_ns)) == 0)
		if (!gate_again(&gate))
			return n;
	return MAX(n_now, least);
}

void background_note(
	struct session *session, struct stream *stream, unsigned n, struct background_use use)
{
	struct background *own = session->background;
	CUdeviceptr words = session->timeline + offsetof(struct page, background) -
			    offsetof(struct page, timeline);
	uint64_t number = own->n_watched;

	if (n == 0 || number - own->n_ended == BACKGROUND_QUEUED_MAX ||
		classes_foreground(stream->device->ordinal) == FOREGROUND_ABSENT)
		return;
	blocked_count_call(session, stream);
	blocked_evade_write(session, stream);
	if (cuda.cuStreamWriteValue64_v2(stream->real,
		    words + number % BACKGROUND_QUEUED_MAX * sizeof(uint64_t), number + 1,
		    CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
		return;
	own->queue[number % BACKGROUND_QUEUED_MAX] =
		(struct queued_kernels){.n = n, .use = use, .launched_ns = now_ns()};
	own->n_watched++;
	own->n_kernels += n;
	publish_groups(session, own);
	atomic_store(&session->classed->n_noted, own->n_watched);
}

static void background_begin(struct session *session, void *part)
{
	session->background = part;
}

const struct session_part background_part = {
	.size = sizeof(struct background),
	.begin = background_begin,
};
