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

/* An experiment without pieces ends. */
#define SILENT_NS (400 * MS)
/* Checks cost the background its speed, so there are few pairs of windows, and fewer later. */
#define FIRST_CHECK_PAIRS 8u
#define CHECK_PAIRS 4u
#define CHECK_INTERVAL_NS (4000 * MS)
#define CHECK_INTERVAL_MAX_NS (32000 * MS)
/* Tries cost little: sizes that disturb much are left within a window. */
#define TRY_PAIRS_LEAST 6u
#define TRY_PAIRS 24u
#define BACK_OFF_NS (1000 * MS)
#define BACK_OFF_MAX_NS (32000 * MS)
/* A size that is too large by so much is tried later: it is no mistake, and disturbs more. */
#define FAR 0.13f
#define FAR_BACK_OFF_NS (4000 * MS)
/* Checks take at most one in so many parts of the time, and tries that fail in so many. */
#define CHECK_PARTS 16u
#define TRY_PARTS 2u
/* A foreground that gets slower by so much, in so many windows, brings a check. */
#define ALARM 0.18f
#define ALARM_N 2u
#define LEVEL_PART 0.125f
/* Other work brings one, too, after this time, which doubles if the work changes all the time. */
#define WORK_NS (1000 * MS)
#define WORK_MAX_NS (64000 * MS)
/* Whatever brings checks, they do not follow faster. */
#define CHECK_LEAST_NS (1000 * MS)
/* After so long without background work, the next may be of another kind. */
#define ABSENT_NS (500 * MS)
/* What a foreground that works no more has felt counts no more. */
#define GONE_NS (1000 * MS)

/* Before it is known: the variance of a difference, which counts as so many differences. */
#define VARIANCE 0.0025f
#define VARIANCE_N 4u
#define DIFFERENCES_MAX 12u
#define ACCEPTED_N 3u
/* Standard errors that make a difference certain; more for a step over a size. */
#define CERTAIN 2.0f
#define VERY_CERTAIN 3.0f
#define LEAP 1.4f
/* A window is ended early if that many pieces are all so much slower. */
#define EARLY_N 3u
#define EARLY 0.2f

/* Of the groups; all SMs are the last size. */
static const unsigned char per_cent[SHARE_SIZES_MAX - 1] = {10, 30, 50, 70, 80, 90, 100};
#define FIRST_PER_CENT 80u

static unsigned groups_of(const struct share_bounds *bounds, unsigned part)
{
	return (unsigned)((uint64_t)bounds->n_groups * part / 100);
}

unsigned share_sizes(const struct share_bounds *bounds, unsigned sizes[SHARE_SIZES_MAX])
{
	unsigned n_groups = MAX(bounds->n_groups, 1u), n = 0;
	unsigned least = MIN(MAX(bounds->floor_groups, 1u), n_groups);

	for (unsigned i = 0; i < ARRAY_SIZE(per_cent); i++) {
		unsigned size = MIN(MAX(groups_of(bounds, per_cent[i]), least), n_groups);

		if (n == 0 || size > sizes[n - 1])
			sizes[n++] = size;
	}
	sizes[n++] = n_groups + 1;
	return n;
}

void share_controller_init(struct share_controller *controller, const struct share_bounds *bounds)
{
	unsigned first = groups_of(bounds, FIRST_PER_CENT);

	memset(controller, 0, sizeof(*controller));
	controller->bounds = *bounds;
	controller->target = share_pace(1.0f + (float)bounds->target / 1000.0f);
	controller->n_sizes = share_sizes(bounds, controller->sizes);
	while (controller->good + 2 < controller->n_sizes &&
		controller->sizes[controller->good + 1] <= first)
		controller->good++;
	controller->at = controller->good;
	controller->stride = 1;
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++)
		controller->back_off_ns[i] = BACK_OFF_NS;
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	controller->work_interval_ns = WORK_NS;
}

/* ---- differences */

static void difference_add(struct share_difference *difference, float value)
{
	float part = value - difference->mean;

	if (difference->n == 0)
		difference->variance = VARIANCE;
	else
		difference->variance +=
			(part * part - difference->variance) / (float)(difference->n + VARIANCE_N);
	difference->n = MIN(difference->n + 1, DIFFERENCES_MAX);
	difference->mean += part / (float)difference->n;
}

/* The square of the standard error. */
static float difference_error(const struct share_difference *difference)
{
	return difference->n > 0 ? difference->variance / (float)difference->n : 0;
}

static bool is_certain(float distance, float error, float how)
{
	return distance > 0 && distance * distance > how * how * error;
}

/* The slowdown of the foreground that feels the most. */
struct verdict {
	float mean, error;           /* of the worst one */
	bool is_known, is_too_large; /* for at least one */
	bool is_fine;                /* for all that are known, probably */
};

/* What the experiment, or the check before it, tells about a foreground. */
static bool felt_by(const struct share_controller *controller, unsigned index,
	enum share_phase phase, float *ret_mean, float *ret_error)
{
	const struct share_feeling *feeling = &controller->feelings[index];
	uint64_t noted_ns = controller->window.foregrounds[index].noted_ns;

	if (noted_ns == 0 || controller->now_ns - noted_ns >= GONE_NS)
		return false;
	*ret_mean = feeling->check.mean;
	*ret_error = difference_error(&feeling->check);
	if (phase != SHARE_TRIES)
		return feeling->check.n > 0;
	/* Being faster than on the floor is no licence to slow it down. */
	*ret_mean = MAX(*ret_mean, 0) + feeling->try.mean;
	*ret_error += difference_error(&feeling->try);
	return feeling->try.n > 0;
}

static struct verdict verdict_of(const struct share_controller *controller, enum share_phase phase)
{
	struct verdict verdict = {.mean = -2, .is_fine = true};

	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		float mean, error;

		if (!felt_by(controller, i, phase, &mean, &error))
			continue;
		verdict.is_known = true;
		verdict.is_too_large |= is_certain(mean - controller->target, error, CERTAIN);
		/* A size that is fine by mistake is corrected by the next check. */
		verdict.is_fine &= is_certain(controller->target - mean, error, CERTAIN / 2);
		if (mean > verdict.mean) {
			verdict.mean = mean;
			verdict.error = error;
		}
	}
	verdict.is_fine &= verdict.is_known;
	return verdict;
}

/* ---- changes of size */

static void go(struct share_controller *controller, unsigned at)
{
	controller->at = at;
	controller->noted_ns = controller->now_ns;
	share_window_begin(&controller->window);
}

static void forget_checks(struct share_controller *controller)
{
	controller->checks_done = 0;
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		controller->feelings[i].check = (struct share_difference){.n = 0};
		controller->feelings[i].n_high = 0;
	}
}

static bool is_check_due(const struct share_controller *controller)
{
	return controller->good > 0 && controller->now_ns >= controller->check_ns;
}

static void check_soon(struct share_controller *controller)
{
	controller->check_ns = MIN(controller->check_ns, controller->checked_ns + CHECK_LEAST_NS);
}

/* The present size becomes another one. */
static void settle(struct share_controller *controller, unsigned good, uint64_t check_ns)
{
	controller->check_ns = MIN(controller->check_ns, controller->now_ns + check_ns);
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	controller->good = good;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++)
		controller->feelings[i].has_before = false;
}

static void experiment_end(struct share_controller *controller)
{
	controller->phase = SHARE_STAYS;
	go(controller, controller->good);
}

static void experiment_begin(
	struct share_controller *controller, enum share_phase phase, unsigned at)
{
	controller->phase = phase;
	controller->other = at;
	controller->n_pairs = controller->n_windows = 0;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		controller->feelings[i].has_other = false;
		if (phase == SHARE_TRIES)
			controller->feelings[i].try = (struct share_difference){.n = 0};
	}
	if (phase == SHARE_TRIES)
		controller->n_tries++;
	else
		controller->n_checks++;
	controller->began_ns = controller->now_ns;
	if (phase == SHARE_CHECKS)
		controller->checked_ns = controller->now_ns;
	go(controller, at);
}

/* The experiment's time so far: much if the pieces are long. */
static uint64_t took_ns(const struct share_controller *controller)
{
	return controller->now_ns - controller->began_ns;
}

/* The size is too large, by that pace. */
static void refuse(struct share_controller *controller, unsigned at, float excess)
{
	if (excess > FAR)
		controller->back_off_ns[at] = MAX(controller->back_off_ns[at], FAR_BACK_OFF_NS);
	controller->n_too_large++;
	controller->retry_ns[at] = controller->now_ns + MAX(controller->back_off_ns[at],
								took_ns(controller) * TRY_PARTS);
	controller->stride = 1;
	controller->back_off_ns[at] = MIN(2 * controller->back_off_ns[at], BACK_OFF_MAX_NS);
}

/* ---- checks */

static void go_down(struct share_controller *controller, const struct verdict *verdict)
{
	float leap = share_pace(LEAP);
	unsigned step = is_certain(verdict->mean - leap, verdict->error, VERY_CERTAIN) ? 2 : 1;

	refuse(controller, controller->good, verdict->mean);
	settle(controller, controller->good - MIN(step, controller->good), 0);
	forget_checks(controller);
	experiment_end(controller);
}

static void check_conclude(struct share_controller *controller)
{
	struct verdict verdict = verdict_of(controller, SHARE_CHECKS);
	unsigned most = controller->checks_done > 0 ? CHECK_PAIRS : FIRST_CHECK_PAIRS;
	bool is_last = controller->n_pairs >= most || controller->n_windows >= 2 * most;

	if (verdict.is_too_large || (is_last && is_certain(verdict.mean - controller->target,
							verdict.error, CERTAIN / 4))) {
		go_down(controller, &verdict);
		return;
	}
	if (!is_last && !(verdict.is_fine && controller->n_pairs >= CHECK_PAIRS))
		return;
	experiment_end(controller);
	if (!verdict.is_known) {
		controller->check_ns = controller->now_ns + CHECK_LEAST_NS;
		return;
	}
	controller->checks_done++;
	controller->check_ns = controller->now_ns + MAX(controller->check_interval_ns,
							    took_ns(controller) * CHECK_PARTS);
	controller->check_interval_ns =
		MIN(2 * controller->check_interval_ns, CHECK_INTERVAL_MAX_NS);
}

/* ---- tries */

/* The size that was tried is the present one now. */
static void accept(struct share_controller *controller)
{
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_feeling *feeling = &controller->feelings[i];

		feeling->check.mean += feeling->try.mean;
		/* The try that was accepted was more likely too low than too high. */
		feeling->check.n = MIN(MIN(feeling->check.n, feeling->try.n), ACCEPTED_N);
		feeling->level += feeling->try.mean;
	}
	settle(controller, controller->other, CHECK_INTERVAL_NS / 2);
	controller->stride = 2;
	experiment_end(controller);
}

static void try_conclude(struct share_controller *controller)
{
	struct verdict verdict = verdict_of(controller, SHARE_TRIES);
	bool is_last = controller->n_pairs >= TRY_PAIRS || controller->n_windows >= 2 * TRY_PAIRS;

	if (verdict.is_too_large || (is_last && verdict.mean > controller->target)) {
		refuse(controller, controller->other, verdict.mean);
		experiment_end(controller);
	} else if ((is_last && verdict.is_known) ||
		   (verdict.is_fine && controller->n_pairs >= TRY_PAIRS_LEAST)) {
		accept(controller);
	} else if (is_last) {
		experiment_end(controller);
	}
}

/* Whether a few pieces show that the size that is tried is too large. */
static bool is_early_end(const struct share_controller *controller, unsigned index)
{
	const struct share_foreground *one = &controller->window.foregrounds[index];
	const struct share_feeling *feeling = &controller->feelings[index];

	return controller->phase == SHARE_TRIES && controller->at != controller->good &&
	       feeling->has_before && one->n >= EARLY_N && one->least - feeling->before > EARLY;
}

/* ---- what happens after a window of the present size */

/* The pace of a foreground in such a window. */
static void feel(struct share_controller *controller, struct share_feeling *feeling, float pace)
{
	bool is_high = feeling->has_before && pace - feeling->level > ALARM;

	feeling->level =
		feeling->has_before ? feeling->level + LEVEL_PART * (pace - feeling->level) : pace;
	feeling->n_high = is_high ? feeling->n_high + 1 : 0;
	if (feeling->n_high < ALARM_N)
		return;
	feeling->level = pace;
	forget_checks(controller);
	check_soon(controller);
}

/* Uses a window of the present size; returns whether an experiment has a new difference. */
static bool window_use(struct share_controller *controller)
{
	bool is_used = false;

	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_feeling *feeling = &controller->feelings[i];
		bool is_known;
		float pace, difference;

		is_known = share_window_pace(&controller->window, i, &pace);
		if (is_known && feeling->has_before && feeling->has_other) {
			difference = feeling->other - (feeling->before + pace) / 2;
			if (controller->phase == SHARE_CHECKS)
				difference_add(&feeling->check, -difference);
			else
				difference_add(&feeling->try, difference);
			is_used = true;
		}
		if (is_known)
			feel(controller, feeling, pace);
		feeling->has_other = false;
		feeling->has_before = is_known;
		feeling->before = is_known ? pace : 0;
	}
	return is_used;
}

/* Whatever was known of sizes may be wrong. */
static void forget_sizes(struct share_controller *controller)
{
	controller->stride = 2;
	forget_checks(controller);
	check_soon(controller);
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++) {
		controller->retry_ns[i] = 0;
		controller->back_off_ns[i] = BACK_OFF_NS;
	}
}

static void look_for_new_work(struct share_controller *controller)
{
	uint64_t passed_ns = controller->now_ns - controller->work_ns;

	if (passed_ns < controller->work_interval_ns ||
		!share_window_is_new_work(&controller->window, controller->work_ns))
		return;
	controller->work_interval_ns = passed_ns < 4 * controller->work_interval_ns
					       ? MIN(2 * controller->work_interval_ns, WORK_MAX_NS)
					       : WORK_NS;
	controller->work_ns = controller->now_ns;
	forget_sizes(controller);
}

/* The larger size to try now; the present one: none. */
static unsigned next_size(const struct share_controller *controller)
{
	for (unsigned stride = controller->stride; stride > 0; stride--) {
		unsigned next = controller->good + stride;

		if (next < controller->n_sizes && controller->now_ns >= controller->retry_ns[next])
			return next;
	}
	return controller->good;
}

static void experiment_choose(struct share_controller *controller)
{
	struct verdict verdict = verdict_of(controller, SHARE_CHECKS);
	unsigned next = next_size(controller);

	look_for_new_work(controller);
	if (is_check_due(controller))
		experiment_begin(controller, SHARE_CHECKS, 0);
	else if (next > controller->good && verdict.mean < controller->target)
		experiment_begin(controller, SHARE_TRIES, next);
	else
		share_window_begin(&controller->window);
}

static void window_end(struct share_controller *controller)
{
	controller->n_windows++;
	if (controller->at != controller->good) {
		for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
			struct share_feeling *feeling = &controller->feelings[i];

			feeling->has_other =
				share_window_pace(&controller->window, i, &feeling->other);
		}
		go(controller, controller->good);
		return;
	}
	controller->n_pairs += window_use(controller);
	if (controller->phase == SHARE_CHECKS)
		check_conclude(controller);
	else if (controller->phase == SHARE_TRIES && is_check_due(controller))
		experiment_end(controller);
	else if (controller->phase == SHARE_TRIES)
		try_conclude(controller);
	if (controller->phase == SHARE_STAYS)
		experiment_choose(controller);
	else
		go(controller, controller->other);
}

/* ---- what others see */

/* Notes whether background work was there; its kind may be another one after an absence. */
static void look_at_background(struct share_controller *controller, bool is_there)
{
	if (!is_there && controller->absent_ns == 0) {
		controller->absent_ns = MAX(controller->now_ns, 1u);
	} else if (is_there && controller->absent_ns > 0) {
		if (controller->now_ns - controller->absent_ns >= ABSENT_NS)
			forget_sizes(controller);
		controller->absent_ns = 0;
	}
}

void share_controller_note(struct share_controller *controller, uint32_t foreground, uint64_t work,
	uint64_t ns, unsigned groups, uint64_t now)
{
	bool is_in = groups == controller->sizes[controller->at], is_new;
	unsigned index;

	controller->now_ns = MAX(controller->now_ns, now);
	if (ns == 0)
		return;
	look_at_background(controller, groups > 0);
	index = share_window_note(&controller->window, foreground, work, (float)ns, is_in,
		controller->now_ns, &is_new);
	if (is_new) {
		controller->feelings[index] = (struct share_feeling){.has_before = false};
		check_soon(controller);
	}
	if (!is_in)
		return;
	controller->noted_ns = controller->now_ns;
	if (is_early_end(controller, index)) {
		refuse(controller, controller->at, EARLY);
		experiment_end(controller);
	} else if (share_window_is_over(&controller->window, controller->now_ns)) {
		window_end(controller);
	}
}

unsigned share_controller_groups(struct share_controller *controller, uint64_t now)
{
	controller->now_ns = MAX(controller->now_ns, now);
	if (controller->phase != SHARE_STAYS &&
		controller->now_ns - controller->noted_ns >= SILENT_NS)
		experiment_end(controller);
	return controller->sizes[controller->at];
}

unsigned share_controller_slowdown(const struct share_controller *controller)
{
	struct verdict verdict = verdict_of(controller, SHARE_CHECKS);

	return verdict.is_known ? (unsigned)(share_ratio(verdict.mean) * 1000 + 0.5f) : 0;
}
