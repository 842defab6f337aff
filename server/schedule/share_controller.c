/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the background's share of a GPU. The caller's thread, under the caller's lock.
 *
 * Invariant: the present size is one of the sizes, whatever is noted.
 */

#include "share_controller.h"

#include <string.h>

#include "base.h"

#define MS 1000000ull

/*
 * Times age: work on all sizes gets slower and faster with the clocks of the GPU. If it gets
 * slower, the time on the floor tells: see base_of().
 */
#define STALE_ALONE_NS (300000 * MS)
#define STALE_NS (20000 * MS)
/* A piece that takes longer says nothing about shares: the program itself waits. */
#define LONGEST_NS (10000 * MS)
/* No size is left for a larger one before pieces of so many and so long have shown it good. */
#define QUIET_NS (150 * MS)
#define QUIET_N 32u
/* A measurement on the floor ends after so many pieces of the work, or after that time. */
#define MEASURED_N 24u
#define MEASURED_NS (100 * MS)
/* A try or a measurement without pieces ends. */
#define SILENT_NS (300 * MS)
#define JUDGE_NS (1 * MS)
#define BACK_OFF_NS (1000 * MS)
#define BACK_OFF_MAX_NS (8000 * MS)
#define PATIENCE_NS (4000 * MS)
#define RESET_NS (2000 * MS)

/* Estimates forget: a piece counts at least 1/MEMORY. */
#define MEMORY 128u
#define LEAST_N 4u
/* A piece counts at most as twice the mean and at least as half of it. */
#define OUTLIER 2.0f
/* So many outliers in turn are no outliers: the time has changed. */
#define OUTLIERS 4u
/* Before pieces tell it: the deviation of work's time is about a tenth. */
#define VARIANCE 0.01f

#define DECAY_NS (250 * MS)
#define DECAY 0.7f
#define DECAYS_MAX 64u

/* How far from the mean a size counts as too large: so many standard errors. */
#define CERTAIN 2.0f

static const unsigned char per_cent[SHARE_SIZES_MAX] = {10, 20, 30, 50, 70, 80, 90, 100};
#define FIRST_PER_CENT 80u

unsigned share_sizes(const struct share_bounds *bounds, unsigned sizes[SHARE_SIZES_MAX])
{
	unsigned n_groups = MAX(bounds->n_groups, 1u), n = 0;
	unsigned least = MIN(MAX(bounds->floor_groups, 1u), n_groups);

	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++) {
		unsigned size = MAX((unsigned)((uint64_t)n_groups * per_cent[i] / 100), least);

		if (n == 0 || size > sizes[n - 1])
			sizes[n++] = size;
	}
	return n;
}

void share_controller_init(struct share_controller *controller, const struct share_bounds *bounds)
{
	unsigned first;

	memset(controller, 0, sizeof(*controller));
	controller->bounds = *bounds;
	controller->n_sizes = share_sizes(bounds, controller->sizes);
	first = (unsigned)((uint64_t)bounds->n_groups * FIRST_PER_CENT / 100);
	while (controller->at + 1 < controller->n_sizes &&
		controller->sizes[controller->at + 1] <= first)
		controller->at++;
	controller->good = controller->at;
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++)
		controller->back_off_ns[i] = BACK_OFF_NS;
	controller->measure_back_off_ns = BACK_OFF_NS;
}

/* ---- times of work */

static bool is_known(const struct share_time *time, uint64_t now, uint64_t stale_ns)
{
	return time->n >= LEAST_N && now - time->noted_ns < stale_ns;
}

static void time_note(struct share_time *time, float ns, uint64_t now)
{
	bool is_outlier = ns > time->mean_ns * OUTLIER || ns * OUTLIER < time->mean_ns;
	float part;

	time->n_outliers = time->n > 0 && is_outlier ? time->n_outliers + 1 : 0;
	if (time->n == 0 || time->n_outliers == OUTLIERS)
		*time = (struct share_time){.mean_ns = ns, .variance = VARIANCE};
	if (now - time->noted_ns >= STALE_NS)
		time->n = MIN(time->n, LEAST_N);
	ns = MIN(MAX(ns, time->mean_ns / OUTLIER), time->mean_ns * OUTLIER);
	time->n++;
	time->noted_ns = now;
	part = (ns - time->mean_ns) / time->mean_ns;
	/* The assumed variance counts as a few pieces. */
	time->variance += (part * part - time->variance) / (float)MIN(time->n + LEAST_N, MEMORY);
	time->mean_ns += (ns - time->mean_ns) / (float)MIN(time->n, MEMORY);
}

/* The square of the standard error of the mean, relative to it. */
static float error_of(const struct share_time *time)
{
	return time->variance / (float)MIN(time->n, MEMORY);
}

/*
 * What a work's time is compared with; NULL: nothing is known. It is the time alone. If no size
 * comes close to that, even the floor, it is the time on the floor: the background gives up
 * nothing that does not help.
 */
static const struct share_time *base_of(
	const struct share_controller *controller, const struct share_work *work)
{
	const struct share_time *alone = &work->alone, *least = &work->beside[0];
	bool is_least_known = is_known(least, controller->now_ns, STALE_NS);
	float most = 1.0f + (float)controller->bounds.target / 1000.0f;

	if (!is_known(alone, controller->now_ns, STALE_ALONE_NS))
		return is_least_known ? least : alone->n >= LEAST_N ? alone : NULL;
	return is_least_known && least->mean_ns > alone->mean_ns * most ? least : alone;
}

/* Whether that is recent enough to go without a measurement. */
static bool is_base_known(const struct share_controller *controller, const struct share_work *work)
{
	return is_known(&work->alone, controller->now_ns, STALE_ALONE_NS) ||
	       is_known(&work->beside[0], controller->now_ns, STALE_NS);
}

/* ---- the works */

static void decay(struct share_controller *controller)
{
	uint64_t n = (controller->now_ns - controller->decayed_ns) / DECAY_NS;
	float factor = 1.0f;

	if (n == 0)
		return;
	for (uint64_t i = 0; i < MIN(n, DECAYS_MAX); i++)
		factor *= DECAY;
	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++)
		controller->works[i].busy_ns *= factor;
	controller->decayed_ns = controller->now_ns;
}

/* Finds the work, or takes the place of the one that took the least time lately. */
static struct share_work *work_get(
	struct share_controller *controller, uint32_t foreground, uint64_t work)
{
	struct share_work *least = controller->works;

	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++) {
		struct share_work *one = &controller->works[i];

		if (one->born_ns > 0 && one->work == work && one->foreground == foreground)
			return one;
		if (one->born_ns == 0 ? least->born_ns > 0
				      : least->born_ns > 0 && one->busy_ns < least->busy_ns)
			least = one;
	}
	*least = (struct share_work){
		.work = work, .foreground = foreground, .born_ns = MAX(controller->now_ns, 1u)};
	return least;
}

/* ---- the slowdown of each foreground */

struct feeling {
	uint32_t foreground;
	float busy_ns, told_ns; /* of all its works, and of those whose slowdown is known */
	float slowdown, error;  /* sums, weighted by time */
	unsigned n;             /* pieces */
};

struct verdict {
	/* The worst foreground's, and the square of its standard error; slowdown 0: not known. */
	float slowdown, error;
	unsigned n;
};

static struct feeling *feeling_of(struct feeling *feelings, unsigned *n, uint32_t foreground)
{
	for (unsigned i = 0; i < *n; i++)
		if (feelings[i].foreground == foreground)
			return &feelings[i];
	/* The last ones count as one. */
	if (*n == SHARE_FOREGROUNDS_MAX)
		return &feelings[*n - 1];
	feelings[*n] = (struct feeling){.foreground = foreground};
	return &feelings[(*n)++];
}

static void feeling_add(struct feeling *feeling, const struct share_work *work,
	const struct share_time *time, const struct share_time *base)
{
	float ratio, weight = work->busy_ns;

	feeling->busy_ns += weight;
	if (!base || time->n < 2)
		return;
	ratio = time->mean_ns / base->mean_ns;
	feeling->told_ns += weight;
	feeling->slowdown += weight * ratio;
	feeling->n += time->n;
	if (time != base)
		feeling->error +=
			weight * weight * ratio * ratio * (error_of(time) + error_of(base));
}

/* Compares with the time alone, if known, or with what is best to compare with. */
static struct verdict judge(const struct share_controller *controller, bool is_with_alone)
{
	struct feeling feelings[SHARE_FOREGROUNDS_MAX];
	struct verdict worst = {.slowdown = 0};
	unsigned n = 0;

	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++) {
		const struct share_work *work = &controller->works[i];
		const struct share_time *base = base_of(controller, work);

		if (is_with_alone && work->alone.n >= LEAST_N)
			base = &work->alone;
		if (work->busy_ns > 0)
			feeling_add(feeling_of(feelings, &n, work->foreground), work,
				&work->beside[controller->at], base);
	}
	for (unsigned i = 0; i < n; i++) {
		const struct feeling *one = &feelings[i];

		/* Known of a third of the time, at least. */
		if (one->n < LEAST_N || one->told_ns * 3 < one->busy_ns ||
			one->slowdown <= worst.slowdown * one->told_ns)
			continue;
		worst = (struct verdict){.slowdown = one->slowdown / one->told_ns,
			.error = one->error / (one->told_ns * one->told_ns),
			.n = one->n};
	}
	return worst;
}

/* ---- changes of size */

static void go(struct share_controller *controller, unsigned at, enum share_phase phase)
{
	controller->phase = phase;
	controller->since_ns = controller->noted_ns = controller->now_ns;
	controller->busy_ns = 0;
	if (at == controller->at)
		return;
	controller->at = at;
	/* What is known of that size may be old. */
	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++)
		controller->works[i].beside[at].n = 0;
}

/* How much of the foregrounds' time is work that satisfies that. */
static bool most_work(const struct share_controller *controller,
	bool (*is_such)(const struct share_controller *, const struct share_work *))
{
	float all = 0, such = 0;

	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++) {
		const struct share_work *work = &controller->works[i];

		all += work->busy_ns;
		if (work->busy_ns > 0 && is_such(controller, work))
			such += work->busy_ns;
	}
	return such * 2 > all;
}

static bool is_new(const struct share_controller *controller, const struct share_work *work)
{
	return work->born_ns > controller->reset_ns;
}

static bool is_measured(const struct share_controller *controller, const struct share_work *work)
{
	(void)controller;
	return work->beside[0].n >= MEASURED_N;
}

/* A foreground that does other work may bear other sizes. */
static void forget_back_offs(struct share_controller *controller)
{
	if (controller->now_ns - controller->reset_ns < RESET_NS || !most_work(controller, is_new))
		return;
	controller->reset_ns = controller->now_ns;
	controller->measure_ns = 0;
	controller->measure_back_off_ns = BACK_OFF_NS;
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++) {
		controller->retry_ns[i] = 0;
		controller->back_off_ns[i] = BACK_OFF_NS;
	}
}

static void refuse(struct share_controller *controller, unsigned at)
{
	controller->retry_ns[at] = controller->now_ns + controller->back_off_ns[at];
	controller->back_off_ns[at] = MIN(2 * controller->back_off_ns[at], BACK_OFF_MAX_NS);
}

/* The present size is too large by that slowdown. */
static void go_down(struct share_controller *controller, float excess, float target)
{
	unsigned step = excess > 8 * target ? 2 : 1, at = controller->at;

	controller->n_too_large++;
	refuse(controller, at);
	at = controller->phase == SHARE_TRIES ? controller->good : at - MIN(step, at);
	controller->good = at;
	go(controller, at, SHARE_STAYS);
}

static bool is_quiet(const struct share_controller *controller, const struct verdict *verdict)
{
	return verdict->n >= QUIET_N && controller->busy_ns >= QUIET_NS;
}

static void consider_size(struct share_controller *controller)
{
	float target = (float)controller->bounds.target / 1000.0f;
	struct verdict verdict = judge(controller, false);
	float excess = verdict.slowdown - 1.0f;
	unsigned next = controller->at + 1;

	if (verdict.slowdown <= 0)
		return;
	if (controller->at > 0 && excess > target &&
		(excess - target) * (excess - target) > CERTAIN * CERTAIN * verdict.error) {
		go_down(controller, excess, target);
		return;
	}
	if (!is_quiet(controller, &verdict))
		return;
	controller->good = controller->at;
	controller->phase = SHARE_STAYS;
	/* Between the target and its half, a larger size has little to gain. */
	if (excess < (controller->now_ns - controller->since_ns < PATIENCE_NS ? target / 2
									      : target) &&
		next < controller->n_sizes && controller->now_ns >= controller->retry_ns[next]) {
		controller->n_tries++;
		go(controller, next, SHARE_TRIES);
	}
}

static void measure_end(struct share_controller *controller)
{
	bool is_done = most_work(controller, is_measured);

	controller->measure_ns = controller->now_ns + controller->measure_back_off_ns;
	controller->measure_back_off_ns =
		is_done ? BACK_OFF_NS : MIN(2 * controller->measure_back_off_ns, STALE_NS);
	go(controller, controller->good, SHARE_STAYS);
}

/* Whether a measurement has begun: the time of most work is not known. */
static bool measure_begin(struct share_controller *controller)
{
	if (controller->phase != SHARE_STAYS || controller->at == 0 ||
		controller->busy_ns < MEASURED_NS / 4 ||
		controller->now_ns < controller->measure_ns || most_work(controller, is_base_known))
		return false;
	controller->n_measurements++;
	go(controller, 0, SHARE_MEASURES);
	return true;
}

static void consider(struct share_controller *controller)
{
	if (controller->phase == SHARE_MEASURES) {
		if (controller->busy_ns >= MEASURED_NS || most_work(controller, is_measured))
			measure_end(controller);
		return;
	}
	forget_back_offs(controller);
	if (!measure_begin(controller))
		consider_size(controller);
}

/* ---- what others see */

static void look_at_clock(struct share_controller *controller, uint64_t now)
{
	controller->now_ns = MAX(controller->now_ns, now);
	decay(controller);
}

void share_controller_note(struct share_controller *controller, uint32_t foreground, uint64_t work,
	uint64_t ns, unsigned groups, uint64_t now)
{
	unsigned at = controller->n_sizes;
	struct share_work *own;

	look_at_clock(controller, now);
	if (ns == 0 || ns > LONGEST_NS)
		return;
	while (at > 0 && groups < controller->sizes[at - 1])
		at--;
	if (groups > 0 && at == 0)
		return;
	own = work_get(controller, foreground, work);
	own->busy_ns += (float)ns;
	time_note(groups == 0 ? &own->alone : &own->beside[at - 1], (float)ns, controller->now_ns);
	if (groups == 0 || at - 1 != controller->at)
		return;
	controller->busy_ns += ns;
	controller->noted_ns = controller->now_ns;
	if (controller->now_ns - controller->judged_ns < JUDGE_NS)
		return;
	controller->judged_ns = controller->now_ns;
	consider(controller);
}

unsigned share_controller_groups(struct share_controller *controller, uint64_t now)
{
	look_at_clock(controller, now);
	if (controller->phase != SHARE_STAYS &&
		controller->now_ns - controller->noted_ns >= SILENT_NS) {
		if (controller->phase == SHARE_MEASURES)
			measure_end(controller);
		else
			go(controller, controller->good, SHARE_STAYS);
	}
	return controller->sizes[controller->at];
}

unsigned share_controller_slowdown(const struct share_controller *controller)
{
	float slowdown = judge(controller, true).slowdown * 1000.0f;

	return slowdown < 4e9f ? (unsigned)(slowdown + 0.5f) : UINT32_MAX;
}
